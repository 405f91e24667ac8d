// Says how many layers of effects are here.
import { LayersProgress } from "../ui/status";
import type { Effects } from "./effects";

export const EffectsProgress = ({ of: { rows, next } }: { of: Effects }) => (
  <LayersProgress
    words="Heads switched off one by one"
    done={rows.filter(Boolean).length}
    of={rows.length}
    next={next}
  />
);
