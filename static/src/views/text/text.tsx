// The text itself: choose tokens and see those they attend to, are attended by and are similar to. Pairs or attention
// are drawn as lines, segments as bands.
import { useMemo, useRef, useState } from "preact/hooks";
import { isTooLong, type Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { hasSimilarities } from "../../app/sources";
import { layerRequest } from "../../app/requests";
import { isCross, shownTexts } from "../../app/stacks";
import type { State } from "../../app/state";
import { MEASURE_FIELDS, MeasureControls } from "../../heads/measure-controls";
import { fractionsOf, weighted } from "../../heads/measures";
import { PairRanking, type EntryPair } from "../../heads/pair-ranking";
import { HeadPicker } from "../../heads/picker";
import { perObject } from "../../app/per-object";
import type { Selection } from "../../app/selection";
import { headsOf } from "../../heads/heads";
import { isOfTarget, jointOf, TARGET } from "../../heads/joint";
import { segmentsOf, type Axis, type Head, type Segment } from "../../maps/analysis";
import { entryOf, headOf, tokenAxisOf } from "../../maps/axis";
import { lutOf } from "../../maps/colour";
import { ColourBar } from "../../maps/colour-bar";
import { format } from "../../maps/scale";
import { classes } from "../../ui/classes";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Toggle } from "../../ui/controls";
import { StateToggle } from "../../ui/state-controls";
import { statusOf } from "../../ui/status";
import { Toolbar } from "../../ui/toolbar";
import { taskOf } from "../../ui/task-result";
import { attributingOf, type Attribution } from "../../passes/attribution";
import { TextFlow, tokenAt } from "../../ui/text-flow";
import type { Block } from "../../ui/text-spans";
import { ARCS_MAX, attentionEnds, drawnEnds, LINE_LEAST, pairEnds, type Ends } from "./arcs";
import { AttributionCaption, ColourBy, saidOf } from "./colour-by";
import { coloursOf, lookOf, type Colours, type Task } from "./colours";
import { lineHeads, LineHeads, nameOfLine, type LineHead } from "./line-heads";
import { TextLists } from "./lists";
import { notesOf } from "./notes";
import { textExport } from "./saved";
import { useOverlay } from "./overlay";
import { ABOUT, attentionRows, CHOSEN_MOST, RELATION_CHOICES, relationOf, rowsOf, useFetched, type Rows } from "./rows";
import { RELATIONS, type Relation } from "./state";

// The result of the model's head for each token, by its task.
const SAYS: Partial<Record<string, { label: string; title: string }>> = {
  "token-classification": { label: "Labels", title: "Under each token its label; nothing under tokens of label O" },
  "question-answering": { label: "Answer", title: "Marks the most likely answer" },
  "text-generation": { label: "Next tokens", title: "Under each token the one that the model expects to follow it" },
};

const CROSS_NAMES = ["Text", "Second segment", "Target"];

export function TextView() {
  const app = useApp();
  const { state, theme } = app;
  const { head: measured, stale, entry, selection } = headsOf(app).head(state);
  const long = isTooLong(entry.answer) ? entry.answer : null;
  const own = measured && weighted(measured, state);
  const head = own && jointOf(own);
  const axis = long ? tokenAxisOf(long.encoding) : (head?.axis ?? null);
  const chosen = axis ? chosenIn(axis, state).slice(long ? -CHOSEN_MOST : 0) : [];
  const fetched = useFetched(app, long, selection, chosen);
  const rows = fetched.rows ?? (head && rowsOf(head));
  const cross = isCross(state);
  const lines = rows ? linesShown(app, own, selection, rows, chosen) : [];
  const task = axis && taskOf(app)?.answer;
  const says = long ? null : SAYS[app.model()?.task ?? ""]; // words under thousands of tokens would halt the wheel
  const causal = app.model()?.causal ?? false;
  const relations = RELATION_CHOICES.filter(({ value }) => value !== "similar" || (hasSimilarities(state) && !cross));
  const answer = entry.answer ?? app.overview().answer; // both have the tokens: attributions are of no head
  const attributing = axis && answer ? attributingOf(app, answer, own ?? { axis, columns: axis }) : null;
  const attribution = attributing?.attribution ?? null;
  const { relation, loss, map, tau, center, space, weigh } = state;
  const colours = useMemo(
    () => rows && coloursOf(app, rows, chosen, task, attributing),
    [rows, String(chosen), task, attributing !== null, attribution?.key, theme, relation, loss, map, tau, center, space, weigh], // prettier-ignore
  );
  return (
    <section class="view text-view" aria-label="Text" aria-busy={stale}>
      <div class="toolbar">
        <HeadPicker selection={selection} quantities={[ABOUT[state.relation].quantity]} play />
      </div>
      <Toolbar
        terms={[
          "similarity",
          "lines",
          ...(long ? [] : (["segments"] as const)),
          "sentences",
          ...(long ? [] : (["weighted", "space"] as const)),
          ...(says ? ["result" as const] : []),
        ]}
        more={
          <>
            {!long && <MeasureControls />}
            <StateToggle field="sentences" />
          </>
        }
        rare={[...(long ? [] : MEASURE_FIELDS), "sentences"]}
      >
        <ColourBy relations={relations} losses={causal} also={cross ? { sel: [] } : {}} />
        {says && <StateToggle {...says} field="notes" />}
        <StateToggle field="arcs" />
        {hasSimilarities(state) && !cross && !long && <StateToggle field="bands" />}
        {colours && (
          <div class="legend">
            <ColourBar {...colours.bar} />
          </div>
        )}
      </Toolbar>
      {/* Weighted maps are here of the head on screen only. */}
      {rows && drawsAttention(state) && !(own && state.weigh) && <LineHeads heads={lines} shown={selection} />}
      {statusOf(app, entry, rows !== null && !stale)}
      {statusOf(app, fetched.waiting)}
      {statusOf(app, attributing?.waiting)}
      {rows && (
        <Body
          {...{ rows, selection, lines, chosen, task, colours, attribution }}
          long={long !== null}
          answer={fetched.waiting ? null : entry.answer}
        />
      )}
    </section>
  );
}

const drawsAttention = ({ arcs, relation }: State): boolean => arcs && relation !== "similar";

const fractionRows = perObject((head: Head): Rows => attentionRows(head.axis, fractionsOf(head.attention)));

// `own`: null of a long text.
function linesShown(
  app: App,
  own: Head | null,
  selection: Selection,
  rows: Rows,
  chosen: readonly number[],
): LineHead[] {
  const { state } = app;
  if (!drawsAttention(state)) return [];
  return own && state.weigh
    ? [{ ...selection, lane: 0, name: nameOfLine(selection), rows: fractionRows(jointOf(own)) }]
    : lineHeads(app, own, selection, rows, chosen);
}

// The entries of the chosen tokens.
const chosenIn = (axis: Axis, { sel }: State): number[] =>
  [...new Set(sel.map((t) => entryOf(axis, t)))].filter((t) => t >= 0);

const REST_MS = 100; // from the end of scrolling to the lines of the token that is then under the pointer

interface BodyProps {
  rows: Rows;
  long: boolean;
  answer: Answer | null;
  selection: Selection;
  lines: readonly LineHead[];
  chosen: readonly number[];
  task: Task;
  attribution: Attribution | null;
  colours: Colours | null;
}

function Body(props: BodyProps) {
  const app = useApp();
  const { rows, long, answer, selection, lines, chosen, task, attribution, colours } = props;
  const { state } = app;
  const { axis } = rows;
  const { relation } = state;
  const bands = state.bands && !long;
  const paper = useRef<HTMLDivElement>(null);
  const overlay = useRef<SVGSVGElement>(null);
  const telling = useRef<Telling>({ point: () => undefined, near: () => undefined });
  const pointer = useRef({ x: -1, y: -1, timer: 0 });
  const [several, setSeveral] = useState(false);
  const [goal, setGoal] = useState<{ t: number } | null>(null);
  const notes = useMemo(
    () => (task && state.notes && !long ? notesOf(task, axis) : null),
    [task, state.notes, long, axis],
  );

  const layer = bands ? app.cache.want(layerRequest(state, selection.layer)).answer : null;
  const segments = useMemo((): readonly Segment[] => {
    const mean = layer && headOf(layer, state);
    return mean ? segmentsOf(mean.attention, mean.similarity, mean.axis, state.atau) : [];
  }, [layer, state.special, state.words, state.atau]);
  const cross = isCross(state);
  const pair: EntryPair | null = chosen.length === 2 && !cross ? [chosen[0] ?? 0, chosen[1] ?? 0] : null;
  useExport(() => answer && textExport(app, { rows, long, answer, selection, lines, chosen, pair, attribution }));

  const choose = (t: number, more: boolean): void => {
    // The chosen tokens of a cross head are of one text: those of the target attend, those of the text are attended to.
    const before = cross ? chosen.filter((u) => isOfTarget(axis, u) === isOfTarget(axis, t)) : chosen;
    const all = before.includes(t) ? before.filter((u) => u !== t) : more ? [...before, t] : [t];
    const next = all.slice(long ? -CHOSEN_MOST : 0);
    const relates = cross && next.length ? { relation: isOfTarget(axis, t) ? ("to" as const) : ("from" as const) } : {};
    app.set({ sel: next.flatMap((u) => axis.groups[u]?.slice(0, 1) ?? []), ...relates });
  };
  const announce = (t: number, aloud: boolean): void =>
    app.announce(
      t < 0
        ? ""
        : [describeToken(rows, chosen, t, relation), attribution && saidOf(attribution, t), notes?.[t]?.title]
            .filter(Boolean)
            .join("   "),
      aloud,
    );
  const point = (t: number): void => {
    telling.current.point(t);
    announce(t, false);
  };
  // Between two tokens the pointer stays at the last one. While the text scrolls below it, it points at none anew.
  const onPointerOver = ({ target, screenX, screenY }: PointerEvent): void => {
    const { x, y, timer } = pointer.current;
    const t = tokenAt(target);
    const rests = x === screenX && y === screenY;
    clearTimeout(timer);
    pointer.current = { x: screenX, y: screenY, timer: t >= 0 && rests ? window.setTimeout(point, REST_MS, t) : 0 };
    if (t >= 0 && !rests) point(t);
  };
  const onClick = (e: MouseEvent): void => {
    const t = tokenAt(e.target);
    if (t >= 0) choose(t, several || e.shiftKey || e.ctrlKey || e.metaKey);
    else if (getSelection()?.isCollapsed !== false) app.set({ sel: [] });
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const t = tokenAt(document.activeElement);
    if (t < 0) return;
    if (e.key === " " || e.key === "Enter") choose(t, several || e.shiftKey || e.ctrlKey);
    else if (e.key === "Escape") app.set({ sel: [] });
    else return;
    e.preventDefault();
  };
  // The same looks as long as they show the same: pointing at a token redraws only the lines.
  const lookKey = useMemo(() => ({}), [colours, String(chosen), notes]);
  return (
    <div class="text-body">
      <div class="paper-side">
        <div class="choosing">
          {state.attribution !== "none" ? (
            <AttributionCaption of={attribution} />
          ) : (
            <p class="muted caption">{captionOf(rows, chosen, relation, lines, state.loss && Boolean(task?.loss))}</p>
          )}
          <Toggle
            label="Choose several"
            title={`Each click adds a token to the chosen ones${long ? `, up to ${CHOSEN_MOST}` : ""}, as Shift and click does`}
            on={several}
            onChange={setSeveral}
          />
        </div>
        <div
          class={classes("paper", state.sentences && "sentences", bands && "banded", notes && "noted")}
          ref={paper}
          onClick={onClick}
          onMouseDown={(e) => e.shiftKey && e.preventDefault() /* else the browser selects the text between */}
          onPointerOver={onPointerOver}
          onPointerLeave={() => point(-1)}
          onKeyDown={onKeyDown}
          onFocusCapture={(e) => announce(tokenAt(e.target), true)}
        >
          <svg class="arcs" aria-hidden="true" ref={overlay} />
          <TextFlow
            axis={axis}
            texts={shownTexts(state)}
            {...(cross ? { names: CROSS_NAMES } : {})}
            label={cross ? "Tokens of the text and of the target" : "Tokens of the text"}
            multiple
            lookKey={lookKey}
            lookOf={(t) => lookOf(colours, axis, chosen, notes, t)}
            goal={goal}
            onNear={(near) => telling.current.near(near)}
          />
        </div>
        <TextLines {...{ rows, lines, chosen, segments, paper, overlay, telling }} />
        <PairRanking axis={axis} pair={pair} />
      </div>
      <TextLists
        {...{ rows, chosen, segments, attribution }}
        onChoose={(t) => (long ? setGoal({ t }) : choose(t, false))}
        onPoint={point}
      />
    </div>
  );
}

// Tells the lines over the text what has changed.
interface Telling {
  point: (t: number) => void; // the token under the pointer; -1: none
  near: (near: readonly Block[]) => void; // whose tokens have elements
}

// Draws lines and bands over the text, and says below it which are left out. Pointing at a token draws this alone: the text
// and its lists have thousands of elements.
function TextLines(props: {
  rows: Rows;
  lines: readonly LineHead[];
  chosen: readonly number[];
  segments: readonly Segment[];
  paper: { readonly current: HTMLDivElement | null };
  overlay: { readonly current: SVGSVGElement | null };
  telling: { current: Telling };
}) {
  const app = useApp();
  const { state, theme } = app;
  const { rows, lines, chosen, segments, paper, overlay } = props;
  const [at, point] = useState(-1);
  const [blocks, near] = useState<readonly Block[]>([]);
  props.telling.current = { point, near };
  const around = new Set(at >= 0 && rows.of(state.relation, at) ? [at] : chosen);
  const isNear = (t: number): boolean => blocks.some(({ from, to }) => from <= t && t < to);
  const ends = endsOf(state, rows, lines, around, isNear);
  useOverlay(paper, overlay, {
    ends: drawnEnds(ends.map(({ strongest }) => strongest)),
    quantity: ABOUT[state.relation].quantity,
    segments,
    lut: lutOf(state.map, "figure", theme),
  });
  return (
    <p class="muted caption" role="status">
      {rows.axis.generated.includes(true) && "Underlined tokens were written by the model. "}
      {state.arcs && noteOf(state, ends, lines, around, around.size > 0 || rows.map(state.relation) !== null)}
    </p>
  );
}

const NO_ENDS: Ends = { count: 0, strongest: [] };

// Pairs, or attention when the text is coloured by it; of the chosen tokens if there are any. One list a head. `isNear`: of
// a long text without chosen tokens, only pairs of such tokens are drawn.
function endsOf(
  { arcs, relation, tau }: State,
  rows: Rows,
  lines: readonly LineHead[],
  around: ReadonlySet<number>,
  isNear: (t: number) => boolean,
): Ends[] {
  if (!arcs) return [];
  if (relation === "similar") return [pairEnds(rows, tau, around, rows.map(relation) ? undefined : isNear)];
  const joins = rows.axis.types.includes(TARGET) ? "either" : relation;
  return lines.map(({ rows: of, lane }) => (of ? attentionEnds(of, lane, around, joins) : NO_ENDS));
}

function captionOf(
  rows: Rows,
  chosen: readonly number[],
  relation: Relation,
  lines: readonly LineHead[],
  losses: boolean,
): string {
  if (losses) return "Loss of each token: −ln of its probability given the tokens before it.";
  const { axis } = rows;
  const { title, all } = ABOUT[relation];
  const whole = rows.map(relation) !== null;
  if (!chosen.length)
    return whole ? `${ofShown(rows, lines)}${all}Choose a token to ask for it alone.` : "Choose a token: its attention and similarities are fetched."; // prettier-ignore
  const names = chosen.map((t) => (whole ? axis.labels[t] : `${axis.labels[t]} ${t}`)).join(", ");
  return `${ofShown(rows, lines)}${title}: ${names}${relationOf(rows, chosen, relation) ? "" : " …"}`;
}

// Which of several heads the colours are of.
function ofShown(rows: Rows, lines: readonly LineHead[]): string {
  const shown = lines.find((line) => line.rows === rows);
  return shown && lines.length > 1 ? `Colours of ${shown.name}. ` : "";
}

// Names the lines that are not drawn, and why. `counted`: all lines are known, not only those of tokens near the window.
function noteOf(
  { relation, weigh, tau }: State,
  ends: readonly Ends[],
  lines: readonly LineHead[],
  around: ReadonlySet<number>,
  counted: boolean,
): string {
  if (!counted)
    return relation === "similar"
      ? `Lines: the ${ARCS_MAX} strongest pairs with a token near the window, of similarity ${tau} or more.`
      : "";
  const count = ends.reduce((sum, of) => sum + of.count, 0);
  const least = `${LINE_LEAST}${weigh ? " of the largest" : ""}`;
  const isKnown = (rows: Rows): boolean =>
    rows.map(relation) !== null || (around.size > 0 && [...around].every((t) => rows.of(relation, t)));
  const bare = lines.filter(({ rows }, n) => rows && isKnown(rows) && !ends[n]?.count).map(({ name }) => name);
  const drawn = relation === "similar" ? "pairs" : `attentions of at least ${least}`;
  const shared = lines.length > 1 ? `, shared evenly among ${lines.length} heads` : "";
  return [
    lines.some(({ rows }) => !rows) && "Fetching maps…",
    count > ARCS_MAX && `Drawn: the ${ARCS_MAX} strongest of ${count.toLocaleString("en")} ${drawn}${shared}.`,
    bare.length > 0 && `No lines of ${bare.join(", ")}: no attention here reaches ${least}.`,
  ]
    .filter(Boolean)
    .join(" ");
}

function describeToken(rows: Rows, chosen: readonly number[], t: number, relation: Relation): string {
  const { axis } = rows;
  const { labels, positions, sentences, types, generated } = axis;
  const cross = types.includes(TARGET);
  const relations = RELATIONS.filter((r) => chosen.length > 0 && (!cross || r === relation)).flatMap((r) => {
    const values = relationOf(rows, chosen, r);
    return values ? [`${ABOUT[r].title.toLowerCase()} ${format(values[t])}`] : [];
  });
  const name = `${labels[t]} ${positions[t]}`;
  const words = [
    cross ? `${isOfTarget(axis, t) ? "target" : "text"} ${name}` : name,
    `sentence ${sentences[t]}`,
    ...(generated[t] ? ["written by the model"] : []),
  ];
  return [...words, ...(relations.length ? [`chosen: ${relations.join("   ")}`] : [])].join("   ");
}
