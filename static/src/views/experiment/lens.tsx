// The predictions after every layer: of the first predicted token, or of all tokens, before and after the change.
import { useRef } from "preact/hooks";
import type { Prediction } from "../../../../build/openapi";
import type { Answer, JsonAnswer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Entry } from "../../app/cache";
import { lensRequest, predictionRequest } from "../../app/requests";
import { tokenAxisOf } from "../../maps/axis";
import { lutOf } from "../../maps/colour";
import { useApp } from "../../ui/context";
import { Select } from "../../ui/controls";
import { StateDisclosure, StateSegmented } from "../../ui/state-controls";
import { statusOf } from "../../ui/status";
import type { Edit } from "../../passes/interventions";
import { LENS_ROWS, LensGrid } from "./lens-grid";
import { LENS_TOP, LensTable } from "./lens-table";
import { changedState, mostOf, placeOf, useSides, type Outcome } from "../../passes/outcome";

// Predictions after every layer at the first predicted token, of both sides.
export function readings(app: App, outcome: Outcome, edits: readonly Edit[]): Entry<JsonAnswer>[] {
  const [one] = outcome.before.predictions ?? [];
  if (!one) return [];
  const states = edits.length ? [app.state, changedState(app, edits)] : [app.state];
  const most = Math.min(LENS_TOP, mostOf(app));
  return states.map((requested) => app.jsonCache.want(predictionRequest(requested, one.position, most, true)));
}

export function Lens({ answer, outcome, edits }: { answer: Answer; outcome: Outcome; edits: readonly Edit[] }) {
  const app = useApp();
  const { lensed } = app.state;
  return (
    <StateDisclosure field="lens" title="Predictions after every layer">
      <div class="lenses">
        <StateSegmented field="lensed" help="lens" />
        {lensed === "one" ? (
          <LensTables answer={answer} outcome={outcome} edits={edits} />
        ) : (
          <LensOfAll answer={answer} edits={edits} />
        )}
      </div>
    </StateDisclosure>
  );
}

function LensTables({ answer, outcome, edits }: { answer: Answer; outcome: Outcome; edits: readonly Edit[] }) {
  const app = useApp();
  const last = useRef<readonly { of: Prediction; side: string }[]>([]);
  const sides = readings(app, outcome, edits);
  const waiting = sides.find(({ status }) => status !== "ready");
  if (!waiting)
    last.current = sides.flatMap(({ answer }, n) =>
      (answer?.predictions ?? [])
        .slice(0, 1)
        .map((of) => ({ of, side: sides.length > 1 ? (n ? "After" : "Before") : "" })),
    );
  return (
    <>
      {statusOf(app, waiting, last.current.length > 0)}
      {last.current.map(({ of, side }) => (
        <LensTable
          key={side}
          place={placeOf(answer, of.position)}
          of={of}
          side={side}
          lut={lutOf(app.state.map, "figure", app.theme)}
        />
      ))}
      <p class="muted">
        Shaded by the square root of the probability; framed: the final prediction. Early layers of post-norm models
        predict roughly, since they are not trained for it.
      </p>
    </>
  );
}

// Some tokens at a time, so that an answer stays small at any length of the text.
function LensOfAll({ answer, edits }: { answer: Answer; edits: readonly Edit[] }) {
  const app = useApp();
  const T = answer.encoding.ids.length;
  const axis = tokenAxisOf(answer.encoding);
  const from = Math.min(app.state.lensFrom, Math.floor((T - 1) / LENS_ROWS) * LENS_ROWS);
  const positions = Array.from({ length: Math.min(LENS_ROWS, T - from) }, (_, n) => from + n);
  const most = Math.min(LENS_TOP, mostOf(app));
  const { outcome, waiting } = useSides(edits, (requested) =>
    app.jsonCache.want(lensRequest(requested, positions, most)),
  );
  const starts = Array.from({ length: Math.ceil(T / LENS_ROWS) }, (_, n) => n * LENS_ROWS);
  return (
    <div class="lens-all">
      <div class="toolbar">
        {edits.length > 0 && <StateSegmented field="lensSide" help="lens" />}
        {starts.length > 1 && (
          <Select
            label="Tokens"
            help="lens"
            value={from}
            options={starts.map((n) => [n, `${n} – ${Math.min(T, n + LENS_ROWS) - 1}`] as const)}
            onChange={app.setter("lensFrom")}
          />
        )}
      </div>
      {statusOf(app, waiting, outcome !== null)}
      {outcome && <LensGrid {...outcome} axis={axis} side={app.state.lensSide} />}
    </div>
  );
}
