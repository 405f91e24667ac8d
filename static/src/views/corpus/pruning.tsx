// The pruning curve of a run: how the loss rises as heads go. The server draws it.
import { useApp } from "../../ui/context";
import { StateDisclosure } from "../../ui/state-controls";
import type { Report, Run } from "./api";
import { nameOfRun } from "./names";
import { PagePart } from "./pages";
import { openInRun } from "./patterns";

export function RunPruning({ run, report, page }: { run: Run; report: Report; page: Document | null }) {
  const app = useApp();
  if (!("pruning" in report)) return null;
  return (
    <StateDisclosure field="runpruning" title={`Pruning curve of ${nameOfRun(run)}`}>
      <PagePart
        page={page}
        select="#figure-pruning-curve > :is(.panels, figcaption), #pruning > :not(h2)"
        onOpen={(layer, head) => openInRun(app, run, report, layer, head)}
      />
    </StateDisclosure>
  );
}
