// High-similarity pairs of one head as a table, in the text beside it, and by distance.
import { useMemo, useState } from "preact/hooks";
import { isTooLong, type Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { LONG_PAIRS_MOST, pairsRequest, savedRequest } from "../../app/requests";
import { isCross, rowTexts } from "../../app/stacks";
import type { State } from "../../app/state";
import { PairRanking, pairNumbers } from "../../heads/pair-ranking";
import { HeadPicker } from "../../heads/picker";
import { nameOf, SUM, type Selection } from "../../app/selection";
import type { Axis, Head } from "../../maps/analysis";
import { amongRows, entryOf, pinnedIn, tokenAxisOf, tokensOf } from "../../maps/axis";
import { perObject } from "../../app/per-object";
import type { Theme } from "../../app/theme";
import { headsOf } from "../../heads/heads";
import { hueOf, HUES } from "../../maps/colour";
import {
  countAbove,
  distanceHistogram,
  distanceOf,
  figuresOf,
  filterPairs,
  orderPairs,
  pairsFrom,
  pairsOf,
  sameSentence,
  sameToken,
  type Pairs,
} from "../../maps/pairs";
import { describeCell, describeTargets } from "../../maps/readout";
import { format, percent } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { madeOf } from "../../saving/provenance";
import { classes } from "../../ui/classes";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Button, Facts, Field, Input } from "../../ui/controls";
import { StateSegmented } from "../../ui/state-controls";
import { Explained } from "../../ui/explain";
import { statusOf } from "../../ui/status";
import { Toolbar } from "../../ui/toolbar";
import { TextFlow, tokenAt, type TokenLook } from "../../ui/text-flow";
import { Histogram } from "./histogram";
import { entriesOf, PairTable, type Listed } from "./table";

// The pairs of the head on screen: of its maps, or of a long text the strongest that the service finds.
interface Found {
  axis: Axis;
  pairs: Pairs;
  similarityOf: (k: number) => number | undefined; // of a pair, by its index
  head: Head | null; // null: of a long text, without maps
}

const foundIn = perObject((head: Head): Found => {
  const { axis, similarity } = head;
  const pairs = pairsOf(head);
  return { axis, pairs, head, similarityOf: (k) => similarity[(pairs.i[k] ?? 0) * axis.n + (pairs.j[k] ?? 0)] };
});

const foundLong = perObject(({ encoding, pairs }: Answer): Found | null => {
  const axis = tokenAxisOf(encoding);
  return pairs && { axis, pairs: pairsFrom(pairs), head: null, similarityOf: (k) => pairs.similarity[k] };
});

const OTHER = "var(--sunk)"; // the colour of tokens that share one

export function PairsView() {
  const app = useApp();
  const { head, stale, entry: ofHead, selection } = headsOf(app).head();
  const { layer, head: number } = selection;
  const long = isTooLong(ofHead.answer);
  const entry = long ? app.cache.want(pairsRequest(app.state, layer, number)) : ofHead;
  const found = long ? entry.answer && foundLong(entry.answer) : head && foundIn(amongRows(head));
  const cross = isCross(app.state);
  return (
    <section class="view pairs-view" aria-label="Pairs" aria-busy={stale}>
      <div class="toolbar">
        <HeadPicker selection={selection} quantities={["similarity"]} />
      </div>
      <Filters />
      {statusOf(app, entry, found !== null && !stale)}
      {found && !cross && <PairRanking axis={found.axis} pair={pinnedAmong(found.axis, app.state)} />}
      {found && <Body found={found} answer={entry.answer} selection={selection} />}
    </section>
  );
}

const pinnedAmong = (axis: Axis, state: State): [number, number] | null => pinnedIn({ axis, columns: axis }, state);

// Names how many of the high pairs are shown. Only the strongest pairs of a long text are known.
export function countOf(kept: number, above: number, known: number, long: boolean): string {
  const cut = long && known === LONG_PAIRS_MOST && above === known;
  const number = (n: number): string => n.toLocaleString("en");
  return `${number(kept)} of ${cut ? `the ${number(above)} strongest pairs` : `${number(above)} high pairs`}`;
}

function Filters() {
  const app = useApp();
  const { find, near, far } = app.state;
  // An empty bound is none.
  const distance = (e: { currentTarget: HTMLInputElement }, otherwise: number): number => {
    const value = e.currentTarget.valueAsNumber;
    return Number.isInteger(value) && value > 0 ? value : otherwise;
  };
  return (
    <Toolbar terms={["pairs", "sentences"]}>
      <Field label="Token">
        <Input
          type="search"
          placeholder="any token"
          value={find}
          onInput={(e) => app.set({ find: e.currentTarget.value })}
        />
      </Field>
      <div class="field range">
        <span>Distance</span>
        <div>
          <Input
            type="number"
            min={1}
            aria-label="Distance from"
            value={String(near)}
            onInput={(e) => app.set({ near: distance(e, 1) })}
          />
          to
          <Input
            type="number"
            min={1}
            placeholder="∞"
            aria-label="Distance to"
            value={far ? String(far) : ""}
            onInput={(e) => app.set({ far: distance(e, 0) })}
          />
        </div>
      </div>
      <StateSegmented field="same" />
      <StateSegmented field="within" />
    </Toolbar>
  );
}

function Body(props: { found: Found; answer: Answer | null; selection: Selection }) {
  const app = useApp();
  const { found, answer, selection } = props;
  const { state, theme } = app;
  const { axis, pairs, head } = found;
  const { tau, find, near, far, same, within, order: sorted } = state;
  const [pointed, setPointed] = useState(-1);
  const filters = [found, tau, find, near, far, same, within];
  const { count, kept } = useMemo(() => {
    const above = countAbove(pairs, tau);
    return { count: above, kept: filterPairs(pairs, above, axis, state) };
  }, filters);
  const order = useMemo(() => orderPairs(kept, pairs, axis, sorted), [kept, sorted]);
  const listed: Listed = { ...found, order };
  const pinnedCell = pinnedAmong(axis, state);
  const [a, b] = pinnedCell ?? [-1, -1];
  const pinned = useMemo(() => order.findIndex((k) => pairs.i[k] === a && pairs.j[k] === b), [order, a, b]);
  useExport(() => (answer ? pairsExport(app, listed, answer, selection, !head) : null));

  const pin = (n: number): void => {
    const k = order[n] ?? 0;
    const cell = entriesOf(pairs, k);
    app.pin(tokensOf(axis, cell));
    app.announce(head ? (isCross(state) ? describeTargets : describeCell)(head, cell) : describePair(listed, k), true);
  };
  const caption =
    `${countOf(kept.length, count, pairs.i.length, !head)}${isCross(state) ? " of the target’s tokens" : ""}` +
    ` · ${selection.head === SUM ? "heads summed" : `head ${selection.head}`} · ${state.center ? "centred " : ""}N ≥ ${tau}`;
  const mates = useMemo(() => matesOf(listed, pointed), [order, pointed]);
  const point = (t: number): void => {
    setPointed(t);
    app.announce(t < 0 ? "" : `${axis.labels[t]} ${axis.positions[t]}   ${matesOf(listed, t).size} pairs`);
  };
  const colours = useMemo(() => coloursOf(axis, listed, theme), [kept, theme]);
  const pins = state.pin.map((t) => entryOf(axis, t));
  const lookOf = (t: number): TokenLook => ({
    class: classes(
      !colours.of.has(t) && "apart",
      pins.includes(t) && "held",
      (mates.has(t) || t === pointed) && "mate",
    ),
    style: { background: colours.of.get(t) ?? "" },
  });
  const counts = useMemo(() => distanceHistogram(pairs, kept, axis), [kept]);
  const chance = useMemo(() => chanceOf(axis, kept.length), [kept]);
  return (
    <div class="pairs-body">
      <PairTable
        of={listed}
        caption={caption}
        sorted={sorted}
        pinned={pinned}
        onSort={app.setter("order")}
        onPin={pin}
        onOpen={() => app.go("head", { overlay: "pairs" })}
      />
      <div class="side-by">
        <div
          class="text-side"
          onPointerOver={(e) => point(tokenAt(e.target))}
          onPointerLeave={() => point(-1)}
          onClick={(e) => {
            const label = axis.labels[tokenAt(e.target)];
            if (label !== undefined) app.set({ find: label });
          }}
        >
          {head && <TextFlow axis={axis} texts={rowTexts(state)} lookOf={lookOf} />}
        </div>
        <Legend {...colours} />
        <section class="card">
          <h2>Distances</h2>
          <Explained term="chance">
            <p class="muted">Bars: pairs shown. Dashed: expected by chance.</p>
          </Explained>
          <Histogram counts={counts} chance={chance} />
        </section>
        <PairFacts listed={listed} kept={kept} />
      </div>
    </div>
  );
}

// The same line as of a cell, without attention, which is not known.
function describePair({ axis, pairs, similarityOf }: Listed, k: number): string {
  const [i, j] = entriesOf(pairs, k).map((t) => `${axis.labels[t]} ${axis.positions[t]}`);
  return [
    `${i} → ${j}`,
    `S ${format(similarityOf(k))}`,
    `N ${format(pairs.normalized[k])}`,
    `distance ${distanceOf(pairs, k, axis)}`,
  ].join("   ");
}

function PairFacts({ listed: { axis, pairs }, kept }: { listed: Listed; kept: Uint32Array }) {
  const {
    repeated,
    sameSentence: within,
    meanDistance,
    focal,
    focalShare,
  } = useMemo(() => figuresOf(pairs, kept, axis), [kept]);
  return (
    <Facts
      of={[
        { name: "Same token", value: percent(repeated) },
        { name: "Same sentence", value: percent(within) },
        { name: "Mean distance", value: format(meanDistance) },
        { name: "Commonest token", value: focal ? `${focal}  ${percent(focalShare)}` : "–" },
      ]}
    />
  );
}

// The number of pairs by distance, for as many pairs drawn at random.
function chanceOf(axis: Axis, kept: number): number[] {
  const all = (axis.n * (axis.n - 1)) / 2;
  return axis.positions.map((_, d) => (Math.max(0, axis.n - d) * kept) / all);
}

// The entries paired with one.
function matesOf({ pairs, order }: Listed, t: number): Set<number> {
  const mates = new Set<number>();
  if (t < 0) return mates;
  for (const k of order) {
    const [a, b] = entriesOf(pairs, k);
    if (a === t) mates.add(b);
    else if (b === t) mates.add(a);
  }
  return mates;
}

interface Value {
  label: string;
  colour: string;
  pairs: number; // that hold it
}

interface Colours {
  of: Map<number, string>; // by entry, of those that take part
  values: readonly Value[];
  others: number; // values without a colour of their own
}

// The token values of most pairs have a colour each (the paper's Fig. 9), the rest share one: more could not be
// distinguished.
function coloursOf(axis: Axis, { pairs, order }: Listed, theme: Theme): Colours {
  const counts = new Map<string, number>();
  const taking = new Map<number, string>();
  for (const k of order) {
    const entries = entriesOf(pairs, k);
    for (const t of entries) taking.set(t, axis.keys[t] ?? "");
    for (const key of new Set(entries.map((t) => axis.keys[t] ?? ""))) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const first = [...counts].sort((a, b) => b[1] - a[1]).slice(0, HUES);
  const hues = new Map(first.map(([key], n) => [key, hueOf(n, theme)]));
  return {
    of: new Map([...taking].map(([t, key]) => [t, hues.get(key) ?? OTHER])),
    values: first.map(([key, pairsOfIt]) => ({
      label: axis.labels[axis.keys.indexOf(key)] ?? "",
      colour: hues.get(key) ?? OTHER,
      pairs: pairsOfIt,
    })),
    others: counts.size - first.length,
  };
}

function Legend({ values, others }: Colours) {
  const app = useApp();
  return (
    <ul class="pair-legend" aria-label="Colours: the tokens of most pairs">
      {values.map(({ label, colour, pairs }) => (
        <li key={label}>
          <Button class="link" title="Shows its pairs alone" onClick={() => app.set({ find: label })}>
            <i aria-hidden="true" style={{ background: colour }} />
            {label} <small class="muted">{pairs.toLocaleString("en")}</small>
          </Button>
        </li>
      ))}
      {others > 0 && (
        <li>
          <i aria-hidden="true" style={{ background: OTHER }} />
          {others} other {others === 1 ? "token" : "tokens"}
        </li>
      )}
    </ul>
  );
}

const COLUMNS = [
  ...["layer", "head", "i", "j", "token_i", "token_j", "similarity"],
  ...["normalized", "distance", "same_token", "same_sentence"],
];

function pairsExport(app: App, listed: Listed, answer: Answer, selection: Selection, long: boolean): Exportable {
  const { axis, pairs, order, similarityOf } = listed;
  const { layer, head: k } = selection;
  const row = (p: number): (string | number)[] => {
    const [i, j] = entriesOf(pairs, p);
    return [
      layer,
      k === SUM ? "sum" : k,
      ...[i, j].map((t) => axis.positions[t] ?? t),
      ...[i, j].map((t) => axis.labels[t] ?? ""),
      similarityOf(p) ?? NaN,
      pairs.normalized[p] ?? NaN,
      distanceOf(pairs, p, axis),
      String(sameToken(pairs, p, axis)),
      String(sameSentence(pairs, p, axis)),
    ];
  };
  const made = madeOf(app, answer, `pairs-${nameOf(selection)}`, requestOf(app.state, selection, long));
  const rows = (): (string | number)[][] => [COLUMNS, ...Array.from(order, row)];
  return { ...made, rows, heads: isCross(app.state) ? null : pairNumbers(app, axis, pinnedAmong(axis, app.state)) };
}

// The maps of a long text are too large to save.
const requestOf = (state: State, { layer, head }: Selection, long: boolean) =>
  savedRequest(state, [layer], head, long ? ["pairs"] : ["pairs", "similarities"]);
