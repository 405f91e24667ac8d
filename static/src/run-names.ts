// How a run is called.
import type { Run } from "./corpora";
import { visible } from "./visible";

export const nameOfRun = (run: Run): string => visible(run.name || run.id);
