// One head's maps before and after an experiment's change, and their difference.
import { headRequest, type Requested } from "../../app/requests";
import { HeadPicker } from "../../heads/picker";
import { SUM, titleOf, type Selection } from "../../app/selection";
import type { Head } from "../../maps/analysis";
import type { Pair } from "../../maps/map-trio";
import { format } from "../../maps/scale";
import { TrioPlates, type Heading } from "../../ui/plates";
import { useApp } from "../../ui/context";
import { statusOf } from "../../ui/status";
import { MapControls, useTwoMaps } from "../../passes/two-maps";
import { doesOf, ofChosen, type Edit } from "../../passes/interventions";

const WORDING = {
  labels: { first: "Map before", second: "Map after", both: "Difference map" },
  short: { first: "before", second: "after", both: "after − before" },
  forward: true,
};

export function ExperimentMaps(props: {
  edits: readonly Edit[];
  selection: Selection;
  changed: Requested; // the state with the change
}) {
  const app = useApp();
  const { edits, selection, changed } = props;
  const ask = (requested: Requested) => app.cache.want(headRequest(requested, selection.layer, selection.head));
  const sides = edits.length ? ([ask(app.state), ask(changed)] as const) : ([null, null] as const);
  const { trio, pair, waiting } = useTwoMaps(WORDING, "similarity", sides, true);
  const heading = pair && headingOf(pair, edits, selection, app.state.what === "similarity");
  return (
    <div class="experiment-maps" id="experiment-maps">
      {edits.length === 0 && <p class="muted">Change a head to see its maps before and after, and their difference.</p>}
      {edits.length > 0 && (
        <div class="toolbar">
          <HeadPicker label="Maps of layer" selection={selection} quantities={[app.state.what]} />
          <MapControls similarity="Similarity S" />
        </div>
      )}
      {waiting && !pair && statusOf(app, waiting)}
      <TrioPlates trio={trio} pair={pair} heading={heading} />
    </div>
  );
}

const NOTHING = "nothing differs here";
const EARLY = ": a change acts on the layers after its own";

function headingOf(pair: Pair, edits: readonly Edit[], selection: Selection, similarity: boolean): Heading {
  const { layer, head } = selection;
  const [edit, ...more] = ofChosen(edits).filter((one) => one.layer === layer && (head === SUM || one.head === head));
  const size = (map: Head): string => (similarity ? `largest S ${format(map.maximum)}` : "rows attend to columns");
  const does = edit && !more.length && head !== SUM ? `${doesOf(edit)}; ` : "";
  const equal = pair.delta.every((v) => v === 0);
  const early = edits.every((one) => one.layer >= layer); // only later layers change
  return {
    first: { title: `${titleOf(selection)}, before`, note: size(pair.first) },
    second: { title: "After", note: does + size(pair.second) },
    both: { title: "After − before", note: equal ? NOTHING + (early ? EARLY : "") : "amber: more after, blue: less" },
  };
}
