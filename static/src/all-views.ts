// Each view registers itself.
import.meta.glob("./views/*/view.ts", { eager: true });
