// The pruning curve of a run: how the loss rises as heads go. The server draws it.
import { StateDisclosure } from "../../ui/state-controls";
import { nameOfRun } from "./names";
import { PagePart } from "./pages";
import type { OfRun } from "./patterns";

export function RunPruning({ run, report, page, onOpen }: OfRun) {
  if (!("pruning" in report)) return null;
  return (
    <StateDisclosure field="runpruning" title={`Pruning curve of ${nameOfRun(run)}`}>
      <PagePart
        page={page}
        select="#figure-pruning-curve > :is(.panels, figcaption), #pruning > :not(h2)"
        onOpen={onOpen}
      />
    </StateDisclosure>
  );
}
