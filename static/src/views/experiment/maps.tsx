// One head's maps before and after an experiment's change, and their difference.
import { useMemo } from "preact/hooks";
import type { Answer } from "../../app/answer";
import { headRequest, type Requested } from "../../app/requests";
import { HeadPicker } from "../../heads/picker";
import { SUM, titleOf, type Selection } from "../../app/selection";
import type { Head } from "../../maps/analysis";
import { MapTrio, type Pair } from "../../maps/map-trio";
import { StateSegmented } from "../../ui/state-controls";
import { format } from "../../maps/scale";
import { TrioPlates, type Heading } from "../../maps/trio-plates";
import { useApp } from "../../ui/context";
import { statusOf } from "../../ui/status";
import { QuantityControl } from "../compare/quantity-control";
import { doesOf, type Edit } from "./interventions";
import { headsOf } from "../../heads/heads";

const WORDING = {
  labels: { first: "Map before", second: "Map after", both: "Difference map" },
  short: { first: "before", second: "after", both: "after − before" },
  forward: true,
};

export function ExperimentMaps(props: {
  answer: Answer;
  edits: readonly Edit[];
  selection: Selection;
  changed: Requested; // the state with the change
}) {
  const app = useApp();
  const { answer, edits, selection, changed } = props;
  // S itself: N hides a change of size, which a scaled head has.
  const trio = useMemo(
    () =>
      new MapTrio(app, WORDING, ({ attention, similarity }) =>
        app.state.what === "attention" ? attention : similarity,
      ),
    [app],
  );
  const ask = (requested: Requested) => app.cache.want(headRequest(requested, selection.layer, selection.head));
  const [first, second] = edits.length ? [ask(app.state), ask(changed)] : [null, null];
  const waiting = [first, second].find((entry) => entry && entry.status !== "ready");
  const now =
    first?.answer && second?.answer
      ? trio.of(headsOf(app).exactHead(first.answer), headsOf(app).exactHead(second.answer))
      : null;
  // The last maps stay while the next are computed.
  const last = useMemo(() => ({ pair: null as Pair | null }), []);
  last.pair = now ?? (waiting?.status === "loading" ? last.pair : null);
  const { pair } = last;
  const heading = pair && headingOf(pair, edits, selection, app.state.what === "similarity");
  return (
    <div class="experiment-maps" id="experiment-maps">
      {edits.length === 0 && <p class="muted">Change a head to see its maps before and after, and their difference.</p>}
      {edits.length > 0 && (
        <div class="toolbar">
          <HeadPicker
            label="Maps of layer"
            answer={answer}
            selection={selection}
            quantities={[app.state.what]}
            onPick={app.pick}
          />
          <QuantityControl similarity="Similarity S" />
          <StateSegmented field="scale" />
        </div>
      )}
      {waiting && !pair && statusOf(app, waiting)}
      <TrioPlates trio={trio} pair={pair} heading={heading} />
    </div>
  );
}

function headingOf(pair: Pair, edits: readonly Edit[], selection: Selection, similarity: boolean): Heading {
  const { layer, head } = selection;
  const [edit, ...more] = edits.filter((one) => one.layer === layer && (head === SUM || one.head === head));
  const size = (map: Head): string => (similarity ? `largest S ${format(map.maximum)}` : "rows attend to columns");
  const does = edit && !more.length && head !== SUM ? `${doesOf(edit)}; ` : "";
  const equal = pair.delta.every((v) => v === 0);
  return {
    first: { title: `${titleOf(selection)}, before`, note: size(pair.first) },
    second: { title: "After", note: does + size(pair.second) },
    both: { title: "After − before", note: equal ? "nothing differs here" : "amber: more after, blue: less" },
  };
}
