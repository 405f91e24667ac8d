// Stands in the place of a view that does not show the chosen heads of an encoder-decoder model.
import { refusalOf } from "../app/stacks";
import { capital } from "../app/words";
import { useApp } from "./context";
import { Button } from "./controls";

export function NotOfStack() {
  const app = useApp();
  return (
    <section class="view" aria-label={capital(app.state.view)}>
      <div class="notice" role="status">
        <h2>Not of these heads</h2>
        <p>{refusalOf(app.state)}</p>
        <Button class="primary" onClick={() => app.set({ stack: "encoder" }, true)}>
          Show the encoder’s heads
        </Button>
      </div>
    </section>
  );
}
