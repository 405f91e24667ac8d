// Two heads, two texts or two models side by side, and their difference on a diverging scale.
import { stackOf } from "../../app/stacks";
import { useMemo, useRef } from "preact/hooks";
import { isTooLong } from "../../app/answer";
import type { App } from "../../app/app";
import type { Stack } from "../../app/state";
import type { Entry } from "../../app/cache";
import { mayBeLong, savedRequest, type AnalyzeRequest, type Requested } from "../../app/requests";
import type { HeadNumbers } from "../../heads/head-map";
import { HeadPicker } from "../../heads/picker";
import { WHOLE_ONLY } from "../../heads/pooled";
import { nameOf, SUM, titleOf, type Selection } from "../../app/selection";
import type { Head } from "../../maps/analysis";
import type { MapTrio, Pair } from "../../maps/map-trio";
import { format } from "../../maps/scale";
import { TrioPlates, type Heading } from "../../ui/plates";
import type { Exportable } from "../../saving/export";
import { madeOf } from "../../saving/provenance";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Facts, Select } from "../../ui/controls";
import { StateSegmented } from "../../ui/state-controls";
import { SecondText } from "../../ui/second-text";
import { statusOf, StatusLine } from "../../ui/status";
import { Toolbar } from "../../ui/toolbar";
import { Columns } from "../../ui/table";
import { Changes, haveCounterparts, type ChangedSide } from "./changes";
import { Cosine } from "./cosine";
import { Match } from "./match";
import { MapControls, useTwoMaps } from "../../passes/two-maps";

const WORDING = {
  labels: { first: "First map", second: "Second map", both: "Difference map" },
  short: { first: "first", second: "second", both: "difference" },
  forward: false,
};

interface Sides {
  first: Entry;
  second: Entry | null; // null: not chosen yet, or too long
  tooLong: boolean; // the whole maps of a side are too large for a page
  selections: readonly [Selection, Selection];
  other: Requested; // the second side's state
}

function sidesOf(app: App): Sides {
  const { state } = app;
  const other = app.secondState();
  const first = app.selection(app.overview().answer);
  const selections = [first, secondSelection(app, other, first)] as const;
  const { against, text2 } = state;
  const missing =
    (against === "text" && text2 === "") ||
    (against === "model" && (app.models.length < 2 || stackOf(other) !== stackOf(state)));
  const sides = !missing && (against === "text" || against === "model") ? [state, other] : [state];
  if (sides.some((side) => hasTooLong(app, side)))
    return { first: app.overview(), second: null, tooLong: true, selections, other };
  return {
    first: app.exactly(state, selections[0]),
    second: missing ? null : app.exactly(other, selections[1]),
    tooLong: false,
    selections,
    other,
  };
}

// Asks for the overview of a text that may be long only: its head waits for it anyway.
const hasTooLong = (app: App, side: Requested): boolean =>
  mayBeLong(side, app.model(side.model)?.max_tokens) && isTooLong(app.overview(side).answer);

// Another text is shown by the same head; another head or model has a choice of its own.
function secondSelection(app: App, other: Requested, first: Selection): Selection {
  const { against, layer2, head2, model } = app.state;
  if (against === "text" || against === "off") return first;
  const { answer } = against === "model" ? app.overview(other) : app.overview();
  return app.selection(answer, { layer: layer2, head: head2 }, against === "model" ? other.model : model);
}

export function CompareView() {
  const app = useApp();
  const { state } = app;
  const numbers = useRef<HeadNumbers | null>(null);
  const sides = sidesOf(app);
  const { first, second } = sides;
  const { trio, pair, waiting } = useTwoMaps(WORDING, "normalized", [first, second]);
  const heading = pair && headingOf(app, pair, sides);
  const ranked = pair ? rankedSides(app, pair, sides.other) : null;
  if (!ranked) numbers.current = null;
  useExport(() => (pair ? compareExport(app, trio, pair, sides, numbers.current) : null));
  return (
    <section class="view compare" aria-label="Compare">
      <Toolbar terms={["against", "normalised", "scale", "head"]}>
        <StateSegmented field="against" step />
        <MapControls similarity="Similarity N" />
      </Toolbar>
      {state.against === "text" && (
        <SecondText label="Second text: change a word of the first, for example" action="Compare" help="against" />
      )}
      {state.against === "text" && state.text2 !== "" && app.model()?.task === "sentence-similarity" && (
        <Cosine other={sides.other} />
      )}
      <Pickers sides={sides} />
      {sides.tooLong && <StatusLine>{WHOLE_ONLY}</StatusLine>}
      {waiting ? statusOf(app, waiting) : !second && !sides.tooLong && <NoSecond />}
      <TrioPlates trio={trio} pair={pair} heading={heading} />
      {pair && <PairFacts pair={pair} />}
      {ranked && !ranked.comparable && (
        <p class="muted">
          The two models differ in their numbers of layers or heads, so their heads have no counterparts to rank by
          change.
        </p>
      )}
      {pair && ranked?.comparable && (
        <Changes
          first={ranked.first}
          second={ranked.second}
          shared={pair.shared}
          onNumbers={(made) => (numbers.current = made)}
        />
      )}
      {state.against === "model" && second && stackOf(state) === "encoder" && (
        <Match of={sides.selections[0]} other={sides.other} />
      )}
      {pair && <Extremes pair={pair} />}
    </section>
  );
}

function Pickers({ sides: { selections, other } }: { sides: Sides }) {
  const app = useApp();
  const { against, what, layer2, head2 } = app.state;
  const overview = app.overview().answer;
  return (
    <div class="toolbar">
      <HeadPicker label="First: layer" selection={selections[0]} quantities={[what]} />
      {against === "model" && (
        <Select
          label="Second model"
          help="model"
          value={app.modelName(other.model)}
          options={app.models.map(({ name }) => [name, name] as const)}
          onChange={app.setter("model2", true)}
        />
      )}
      {against !== "text" && (
        <HeadPicker
          label={against === "off" ? "Switched off: layer" : "Second: layer"}
          answer={against === "model" ? app.overview(other).answer : overview}
          selection={against === "off" ? app.selection(overview, { layer: layer2, head: head2 }) : selections[1]}
          quantities={[what]}
          onPick={app.pickSecond}
        />
      )}
    </div>
  );
}

function NoSecond() {
  const app = useApp();
  return (
    <div class="notice">
      {app.state.against === "text" ? (
        <p>Write the second text above, then click Compare. It begins as a copy of the first.</p>
      ) : app.models.length > 1 ? (
        <p>The second model has no decoder to compare with. Choose another one, or the heads of the encoder.</p>
      ) : (
        <p>
          This server has one model. To compare two, start it with <kbd>--model NAME=DIR</kbd> given twice.
        </p>
      )}
    </div>
  );
}

// While the ranking is closed, nothing of the other side is requested. Null if there is nothing to rank.
function rankedSides(
  app: App,
  { first, second }: Pair,
  other: Requested,
): { first: ChangedSide | null; second: ChangedSide | null; comparable: boolean } | null {
  const { changes, against } = app.state;
  const one = app.overview().answer;
  const two = changes && against !== "head" ? app.overview(other).answer : one;
  if (!one || against === "head") return null;
  return {
    comparable: !two || haveCounterparts(one, two),
    first: { overview: one, requested: app.state, axis: first.axis },
    second: two && { overview: two, requested: other, axis: second.axis },
  };
}

const OF_STACK: Record<Stack, (tokens: number) => string> = {
  encoder: (tokens) => `${tokens} tokens`,
  decoder: (tokens) => `decoder · ${tokens} tokens of the target`,
  cross: (tokens) => `cross heads · ${tokens} tokens of the target`,
};

function headingOf(app: App, { first, second, shared }: Pair, { selections, other }: Sides): Heading {
  const note = (head: Head, requested: Requested, which: "first" | "second"): string =>
    `${sideName(app, which, app.modelName(requested.model))} · ${OF_STACK[stackOf(requested)](head.axis.n)}`;
  const n = shared.first.length;
  const complete = n === first.axis.n && n === second.axis.n;
  return {
    first: { title: titleOf(selections[0]), note: note(first, app.state, "first") },
    second: { title: titleOf(selections[1]), note: note(second, other, "second") },
    both: { title: "Difference", note: complete ? "amber: first, blue: second" : `the ${n} tokens that correspond` },
  };
}

function sideName({ state }: App, which: "first" | "second", model: string): string {
  const { against, layer2, head2 } = state;
  if (against === "text") return `${which} text`;
  if (against !== "off") return model;
  if (which === "first") return "unchanged";
  return `${head2 === SUM ? "all heads" : `head ${head2}`} of layer ${layer2} switched off`;
}

function PairFacts({ pair }: { pair: Pair }) {
  const { first, second, shared, delta } = pair;
  const { what } = useApp().state;
  const facts = useMemo(() => {
    const n = shared.first.length;
    const changed = shared.first.filter(
      (t, k) => first.axis.labels[t] !== second.axis.labels[shared.second[k] ?? 0],
    ).length;
    const mean = delta.length ? delta.reduce((sum, v) => sum + Math.abs(v), 0) / delta.length : NaN;
    return [
      { name: "Tokens compared", value: changed ? `${n}, ${changed} of them changed` : String(n) },
      { name: "Mean |difference|", value: format(mean) },
      { name: "Correlation", value: format(correlation(pair, what === "attention")) },
    ];
  }, [pair]);
  return <Facts of={facts} />;
}

// Pearson's, over the cells of both sides.
function correlation({ second, shared, delta }: Pair, attention: boolean): number {
  const n = shared.first.length,
    cells = n * n;
  if (cells < 2) return NaN;
  const map = attention ? second.attention : second.normalized;
  let sx = 0,
    sy = 0,
    sxx = 0,
    syy = 0,
    sxy = 0;
  for (let k = 0; k < cells; k++) {
    const [row, column] = [shared.second[Math.floor(k / n)] ?? 0, shared.second[k % n] ?? 0];
    const y = map[row * second.axis.n + column] ?? 0;
    const x = (delta[k] ?? 0) + y;
    sx += x;
    sy += y;
    sxx += x * x;
    syy += y * y;
    sxy += x * y;
  }
  return (cells * sxy - sx * sy) / Math.sqrt((cells * sxx - sx * sx) * (cells * syy - sy * sy));
}

const EXTREMES = 8;

function Extremes({ pair }: { pair: Pair }) {
  const { first, shared, delta } = pair;
  const n = shared.first.length;
  const symmetric = useApp().state.what === "similarity";
  const largest = useMemo(
    () =>
      Array.from(delta, (value, k) => ({ value, k }))
        .filter(({ k }) => !symmetric || Math.floor(k / n) < k % n) // each difference once
        .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
        .slice(0, EXTREMES),
    [pair, symmetric],
  );
  const label = (k: number): string => {
    const t = shared.first[k] ?? 0;
    return `${first.axis.labels[t]} ${first.axis.positions[t]}`;
  };
  return (
    <div class="extremes">
      <table>
        <caption>Largest differences, first − second</caption>
        <Columns
          of={[...(symmetric ? ["Token", "and token"] : ["Row", "Column"]), "First − second"]}
          number={(column) => column > 1}
        />
        <tbody>
          {largest.map(({ value, k }) => (
            <tr key={k}>
              <td>{label(Math.floor(k / n))}</td>
              <td>{label(k % n)}</td>
              <td class="number">{(value > 0 ? "+" : "") + format(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function compareExport(
  app: App,
  trio: MapTrio,
  pair: Pair,
  { first, selections, other }: Sides,
  numbers: HeadNumbers | null,
): Exportable | null {
  if (!first.answer) return null;
  const ask = (requested: Requested, { layer, head }: Selection): AnalyzeRequest =>
    savedRequest(requested, [layer], head, ["attentions", "similarities", "head_outputs", "summary"]);
  const name = `compare-${selections.map(nameOf).join("-")}`;
  const made = madeOf(app, first.answer, name, ask(app.state, selections[0]));
  return {
    ...made,
    provenance: { ...made.provenance, second: ask(other, selections[1]) },
    rows: () => trio.rows(pair),
    heads: numbers,
  };
}
