// One head in full: attention and similarity side by side under one cross-hair. A text that is too long for whole maps has
// pooled ones, and a window of them where the reader clicks.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { isTooLong } from "../../app/answer";
import type { App } from "../../app/app";
import { poolOf } from "../../app/requests";
import { SUM, titleOf, type Selection } from "../../app/selection";
import { hasSimilarities, isFile } from "../../app/sources";
import { isCross, stackOf } from "../../app/stacks";
import { headsOf } from "../../heads/heads";
import { CentreInFrame, MEASURE_FIELDS, MeasureControls } from "../../heads/measure-controls";
import { attentionName } from "../../heads/measures";
import { PairRanking, pairNumbers, type EntryPair } from "../../heads/pair-ranking";
import { HeadPicker } from "../../heads/picker";
import { TWO_SIDED_MOST, TwoSided } from "../../heads/two-sided";
import { isRectangular, type Axis, type Head } from "../../maps/analysis";
import { pinnedIn, pinOf, tokenAxisOf } from "../../maps/axis";
import { nameIn } from "../../maps/readout";
import { format } from "../../maps/scale";
import { useExport } from "../../saving/offer";
import { Notes, type PinnedCell } from "../../story/notes";
import { useApp } from "../../ui/context";
import { Alternative, Button, Disclosure } from "../../ui/controls";
import { Plate } from "../../ui/plates";
import { StateSegmented, StateSelect, StateToggle } from "../../ui/state-controls";
import { statusOf, StatusLine } from "../../ui/status";
import { Columns } from "../../ui/table";
import { Toolbar } from "../../ui/toolbar";
import { HeadFacts } from "./facts";
import { useParts, withinPart } from "./parts";
import { Plates, QUANTITIES } from "./plates";
import { headExport } from "./saved";

// Overlays of maps without similarities, and of a window.
const OVERLAYS_OF_ATTENTION = [
  ["none", "None"],
  ["mask", "Mask (Fig. 5)"],
] as const;
const OVERLAYS_OF_WINDOW = [
  ["none", "None"],
  ["pairs", "High pairs"],
] as const;

const ZOOM = 1.6; // by one click

export function HeadView() {
  const app = useApp();
  const { state } = app;
  const plates = useMemo(() => new Plates(app), [app]);
  const pooledPlates = useMemo(() => new Plates(app, true), [app]);
  const { head: whole, stale, entry, selection } = headsOf(app).head(state);
  const long = isTooLong(entry.answer) ? entry.answer : null;
  const parts = useParts(app, long, selection);
  const head = long ? parts.window : whole;
  const answer = long ? parts.answer : entry.answer;
  // Both tokens of a pair are on it.
  const axis = long ? tokenAxisOf(long.encoding) : head && !isRectangular(head) ? head.axis : null;
  const pair = axis && pinnedIn({ axis, columns: axis }, state);
  useExport(() => {
    const numbers = axis && pairNumbers(app, axis, pair);
    return head && answer && headExport(app, plates.viewport, head, answer, selection, numbers);
  });
  return (
    <section class="view head" aria-label="Maps" aria-busy={stale}>
      <div class="toolbar">
        <HeadPicker selection={selection} quantities={quantitiesOf(app)} play />
        <Zoom plates={plates} />
      </div>
      <Controls of={long ? "window" : undefined}>{(head ?? long) && <Elsewhere selection={selection} />}</Controls>
      {statusOf(app, entry, head !== null && !stale)}
      {long && <Extent T={long.encoding.ids.length} selection={selection} />}
      {parts.entries.map((part) => statusOf(app, part))}
      {long && <Maps plates={pooledPlates} head={parts.pooled} />}
      <div class="maps-and-lines">
        <div class="of-maps">
          <Maps plates={plates} head={head} />
          {head && <Below {...{ head, stale, selection, axis, pair }} />}
        </div>
        {head && <Sided head={head} tokens={long?.encoding.ids.length} />}
      </div>
    </section>
  );
}

const quantitiesOf = ({ state }: App) =>
  QUANTITIES.filter((quantity) => quantity === "attention" || hasSimilarities(state));

// Hidden, not left out: the next head's map takes over the focus.
function Maps({ plates, head }: { plates: Plates; head: Head | null }) {
  useLayoutEffect(() => plates.update(head));
  const shown = head && plates.of(head);
  return (
    <div class="plates" hidden={!head}>
      {quantitiesOf(useApp()).map((quantity) => (
        <Plate
          key={quantity}
          title={shown?.[quantity].title ?? ""}
          note={shown?.[quantity].note ?? ""}
          bar={shown?.[quantity].bar ?? null}
          heatmap={plates.maps[quantity]}
        />
      ))}
    </div>
  );
}

// The figures, notes and rankings of the head and of its pinned cell.
function Below(props: { head: Head; stale: boolean; selection: Selection; axis: Axis | null; pair: EntryPair | null }) {
  const { head, stale, selection, axis, pair } = props;
  const pinned = pinnedIn(head, useApp().state);
  return (
    <>
      <HeadFacts head={head} stale={stale} selection={selection} />
      <Notes selection={selection} cell={pinned && cellOf(head, pinned)} />
      {axis && <PairRanking axis={axis} pair={pair} />}
      <Alternative title="Pinned row as a table">
        <PinnedRow head={head} row={pinned?.[0] ?? 0} />
      </Alternative>
    </>
  );
}

// The pinned cell by its token positions and in words.
function cellOf(head: Head, pinned: readonly [number, number]): PinnedCell {
  const [i, j] = pinned;
  const [query = 0, key = 0] = pinOf(head, pinned);
  return { at: [query, key], about: `${nameIn(head.axis, i)} → ${nameIn(head.columns, j)}` };
}

function Extent({ T, selection }: { T: number; selection: Selection }) {
  const block = `${poolOf(T)} × ${poolOf(T)}`;
  return (
    <StatusLine>
      {titleOf(selection)} has {(T * T).toLocaleString("en")} cells. Each cell of the pooled maps is the largest of{" "}
      {block}. Click one to see its window below.
    </StatusLine>
  );
}

function Elsewhere({ selection: { layer, head } }: { selection: Selection }) {
  const app = useApp();
  const { state } = app;
  if (head === SUM || isFile(state.model) || stackOf(state) !== "encoder") return null;
  const alike = (): void => app.go("overview", { seek: `like ${layer}·${head}`, only: "all" });
  const typical = (): void => app.go("corpus", { layer, head, typical: true });
  return (
    <>
      <Button onClick={alike}>Heads like this one</Button>
      <Button onClick={typical} title="This head on its most typical texts of a corpus run">
        Typical texts
      </Button>
    </>
  );
}

function Zoom({ plates: { viewport } }: { plates: Plates }) {
  const { zoom } = useApp().state;
  const button = (label: string, title: string, act: () => void, disabled = false) => (
    <Button class="icon" aria-label={title} title={title} disabled={disabled} onClick={act}>
      {label}
    </Button>
  );
  return (
    <div class="zoom" role="toolbar" aria-label="Zoom">
      {button("−", "Zoom out", () => viewport.zoom(1 / ZOOM), zoom.length === 0)}
      {button("+", "Zoom in", () => viewport.zoom(ZOOM))}
      {button("⤢", "Whole map", () => viewport.reset())}
    </div>
  );
}

// The measures and the overlays by column sums need whole maps.
function Controls({ of, children }: { of: Head["part"]; children: ComponentChildren }) {
  const { state } = useApp();
  const cross = isCross(state);
  const overlays = of ? OVERLAYS_OF_WINDOW : hasSimilarities(state) ? undefined : OVERLAYS_OF_ATTENTION;
  const more = (
    <>
      {!cross && <StateSelect field="diag" />}
      {of ? <CentreInFrame /> : <MeasureControls />}
      {!cross && <StateToggle field="lines" />}
    </>
  );
  return (
    <Toolbar
      terms={[
        ...(["head", "scale", "overlay", "diagonal", "sentences"] as const),
        ...(of ? [] : (["weighted", "space"] as const)),
      ]}
      more={more}
      rare={["diag", "lines", ...(of ? [] : MEASURE_FIELDS)]}
    >
      <StateSegmented field="scale" />
      {!cross && <StateSelect field="overlay" {...(overlays ? { options: overlays } : {})} />}
      {children}
    </Toolbar>
  );
}

const SIDED_AT_ONCE = 30; // tokens of a text whose lines are shown unasked

// Only while the text is short: of a long one nobody could follow a line.
function Sided({ head, tokens }: { head: Head; tokens: number | undefined }) {
  const app = useApp();
  const { sided } = app.state;
  const n = tokens ?? Math.max(head.axis.n, head.columns.n);
  const long = n > TWO_SIDED_MOST;
  const open = sided === "auto" ? n <= SIDED_AT_ONCE : sided === "1";
  return (
    <Disclosure title="Lines between two columns" open={open} onToggle={() => app.set({ sided: open ? "0" : "1" })}>
      {long ? (
        <p class="muted">
          For texts of at most {TWO_SIDED_MOST} tokens; this one has {n}. Set “Tokens at most” to see its beginning.
        </p>
      ) : (
        <TwoSided head={head} />
      )}
    </Disclosure>
  );
}

function PinnedRow({ head, row }: { head: Head; row: number }) {
  const state = withinPart(useApp().state, head.part);
  const { axis, columns, attention, similarity, normalized } = head;
  const weighted = state.weigh && head.weighted;
  const shown = weighted || attention;
  const cross = isRectangular(head); // its similarities have other columns
  const maps = cross ? [shown] : [shown, similarity, normalized];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Values of the row of ${axis.labels[row]}`}>
      <table>
        <caption>
          Query: {axis.labels[row]} ({axis.positions[row]})
        </caption>
        <Columns of={["Position", "Token", attentionName(state), ...(cross ? [] : ["Similarity S", "Normalised N"])]} />
        <tbody>
          {columns.labels.map((label, j) => (
            <tr key={j}>
              <td>{columns.positions[j]}</td>
              <th scope="row">{label}</th>
              {maps.map((map, n) => (
                <td key={n}>{format(map[row * columns.n + j])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
