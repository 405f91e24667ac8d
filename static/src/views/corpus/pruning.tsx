// The pruning curve of a run: how the loss rises as heads go. The server draws it.
import { StateDisclosure } from "../../ui/state-controls";
import { StatusLine } from "../../ui/status";
import type { Report, Run } from "./api";
import { nameOfRun } from "./names";
import { Part } from "./pages";

export function RunPruning({ run, report, page }: { run: Run; report: Report; page: Document | null }) {
  if (!("pruning" in report)) return null;
  return (
    <StateDisclosure field="runpruning" title={`Pruning curve of ${nameOfRun(run)}`}>
      {page ? (
        <Part page={page} select="#figure-pruning-curve > :is(.panels, figcaption), #pruning > :not(h2)" />
      ) : (
        <StatusLine>Reading the report…</StatusLine>
      )}
    </StateDisclosure>
  );
}
