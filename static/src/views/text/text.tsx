// The text itself: choose tokens and see those they attend to, are attended by and are similar to. Pairs or attention
// are drawn as lines, segments as bands.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { hasSimilarities } from "../../app/sources";
import { layerRequest } from "../../app/requests";
import { isCross, shownTexts } from "../../app/stacks";
import type { State } from "../../app/state";
import { MEASURE_FIELDS, MeasureControls } from "../../heads/measure-controls";
import { fractionsOf, weighted } from "../../heads/measures";
import { PairRanking, type EntryPair } from "../../heads/pair-ranking";
import { HeadPicker } from "../../heads/picker";
import { nameOf, type Selection } from "../../app/selection";
import { headsOf } from "../../heads/heads";
import { isOfTarget, jointMap, jointOf, TARGET } from "../../heads/joint";
import { isLong, isTooLong } from "../../heads/pooled";
import { isRectangular, segmentsOf, type Axis, type Head, type Segment } from "../../maps/analysis";
import { entryOf, headOf } from "../../maps/axis";
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
import { moveFocus } from "../../ui/arrows";
import { TextFlow, tokenAt, tokensIn } from "../../ui/text-flow";
import { ARCS_MAX, attentionEnds, drawnEnds, LINE_LEAST, pairEnds, type Ends } from "./arcs";
import { AttributionCaption, saidOf } from "./attribution-caption";
import { ColourBy } from "./colour-by";
import { coloursOf, lookOf, type Colours, type Task } from "./colours";
import { lineHeads, LineHeads, type LineHead } from "./line-heads";
import { TextLists } from "./lists";
import { LongText } from "./long-text";
import { notesOf } from "./notes";
import { ABOUT, RELATION_CHOICES, relationOf, RELATIONS, type Relation } from "./relation";
import { textExport } from "./saved";
import { useOverlay } from "./use-overlay";

// The result of the model's head for each token, by its task.
const SAYS: Partial<Record<string, { label: string; title: string }>> = {
  "token-classification": { label: "Labels", title: "Under each token its label; nothing under tokens of label O" },
  "question-answering": { label: "Answer", title: "Marks the most likely answer" },
  "text-generation": { label: "Next tokens", title: "Under each token the one that the model expects to follow it" },
};

const CROSS_NAMES = ["Text", "Second segment", "Target"];

export function TextView() {
  const app = useApp();
  const { state } = app;
  const { head: measured, entry, selection } = headsOf(app).head(state);
  const own = measured && weighted(measured, state);
  const head = own && jointOf(own);
  const cross = isCross(state);
  const lines = own ? linesShown(app, own, selection) : [];
  const task = head && taskOf(app)?.answer;
  const says = SAYS[app.model()?.task ?? ""];
  const causal = app.model()?.causal ?? false;
  const relations = RELATION_CHOICES.filter(({ value }) => value !== "similar" || (hasSimilarities(state) && !cross));
  const answer = entry.answer ?? app.overview().answer; // both have the tokens: attributions are of no head
  const attributing = own && answer ? attributingOf(app, answer, own) : null;
  const colours = head && coloursOf(app, head, chosenIn(head.axis, state), task, attributing);
  const picker = (
    <div class="toolbar">
      <HeadPicker selection={selection} quantities={[ABOUT[state.relation].quantity]} play />
    </div>
  );
  if (entry.answer && isTooLong(entry.answer))
    return (
      <section class="view text-view" aria-label="Text">
        {picker}
        <LongText overview={entry.answer} selection={selection} />
      </section>
    );
  return (
    <section class="view text-view" aria-label="Text">
      {picker}
      <Toolbar
        terms={[
          "similarity",
          "lines",
          "segments",
          "sentences",
          "weighted",
          "space",
          ...(says ? ["result" as const] : []),
        ]}
        more={
          <>
            <MeasureControls />
            <StateToggle field="sentences" />
          </>
        }
        rare={[...MEASURE_FIELDS, "sentences"]}
      >
        <ColourBy relations={relations} losses={causal} also={cross ? { sel: [] } : {}} />
        {says && <StateToggle {...says} field="notes" />}
        <StateToggle field="arcs" />
        {hasSimilarities(state) && !cross && <StateToggle field="bands" />}
        {colours && (
          <div class="legend">
            <ColourBar {...colours.bar} />
          </div>
        )}
      </Toolbar>
      {/* Weighted maps are here of the head on screen only. */}
      {head && drawsAttention(state) && !state.weigh && !isLong(app.overview().answer) && (
        <LineHeads heads={lines} shown={selection} />
      )}
      {statusOf(app, entry, head !== null)}
      {statusOf(app, attributing?.waiting)}
      {head && (
        <Body
          {...{ head, selection, lines, task, colours }}
          answer={entry.answer}
          attribution={attributing?.attribution ?? null}
        />
      )}
    </section>
  );
}

const drawsAttention = ({ arcs, relation }: State): boolean => arcs && relation !== "similar";

function linesShown(app: App, head: Head, selection: Selection): LineHead[] {
  if (!drawsAttention(app.state)) return [];
  const { attention, axis, columns } = head;
  const lines = app.state.weigh
    ? [{ ...selection, lane: 0, name: nameOf(selection), attention }]
    : lineHeads(app, head, selection, attention);
  if (!isRectangular(head)) return lines;
  return lines.map((line) => ({
    ...line,
    attention: line.attention && jointMap(line.attention, axis.n, columns.n),
  }));
}

// The entries of the chosen tokens.
const chosenIn = (axis: Axis, { sel }: State): number[] =>
  [...new Set(sel.map((t) => entryOf(axis, t)))].filter((t) => t >= 0);

interface BodyProps {
  head: Head;
  answer: Answer | null;
  selection: Selection;
  lines: readonly LineHead[];
  task: Task;
  attribution: Attribution | null;
  colours: Colours | null;
}

function Body(props: BodyProps) {
  const app = useApp();
  const { head, answer, selection, lines, task, attribution, colours } = props;
  const { state, theme } = app;
  const { axis } = head;
  const { relation, bands } = state;
  const paper = useRef<HTMLDivElement>(null);
  const overlay = useRef<SVGSVGElement>(null);
  const pointed = useRef<(t: number) => void>(null);
  const [several, setSeveral] = useState(false);
  const chosen = chosenIn(axis, state);
  const notes = task && state.notes ? notesOf(task, axis) : null;

  const layer = bands ? app.cache.want(layerRequest(state, selection.layer)).answer : null;
  const segments = useMemo((): readonly Segment[] => {
    const mean = layer && headOf(layer, state);
    return mean ? segmentsOf(mean.attention, mean.similarity, mean.axis, state.atau) : [];
  }, [layer, state.special, state.words, state.atau]);
  const cross = isCross(state);
  const pair: EntryPair | null = chosen.length === 2 && !cross ? [chosen[0] ?? 0, chosen[1] ?? 0] : null;
  useExport(() => (answer ? textExport(app, { head, answer, selection, lines, chosen, pair, attribution }) : null));

  const choose = (t: number, more: boolean): void => {
    // The chosen tokens of a cross head are of one text: those of the target attend, those of the text are attended to.
    const before = cross ? chosen.filter((u) => isOfTarget(axis, u) === isOfTarget(axis, t)) : chosen;
    const next = before.includes(t) ? before.filter((u) => u !== t) : more ? [...before, t] : [t];
    const relates = cross && next.length ? { relation: isOfTarget(axis, t) ? ("to" as const) : ("from" as const) } : {};
    app.set({ sel: next.flatMap((u) => axis.groups[u]?.slice(0, 1) ?? []), ...relates });
  };
  const announce = (t: number, aloud: boolean): void =>
    app.announce(
      t < 0
        ? ""
        : [describeToken(head, chosen, t, relation), attribution && saidOf(attribution, t), notes?.[t]?.title]
            .filter(Boolean)
            .join("   "),
      aloud,
    );
  const point = (t: number): void => {
    pointed.current?.(t);
    announce(t, false);
  };
  const onClick = (e: MouseEvent): void => {
    const t = tokenAt(e.target);
    if (t >= 0) choose(t, several || e.shiftKey || e.ctrlKey || e.metaKey);
    else if (getSelection()?.isCollapsed !== false) app.set({ sel: [] });
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const t = tokenAt(document.activeElement);
    if (t < 0 || !paper.current) return;
    if (e.key === " " || e.key === "Enter") choose(t, several || e.shiftKey || e.ctrlKey);
    else if (e.key === "Escape") app.set({ sel: [] });
    else return void moveFocus(e, tokensIn(paper.current));
    e.preventDefault();
  };
  // The same tree as long as it shows the same: pointing at a token redraws only the lines.
  const texts = shownTexts(state);
  const flowKey = [colours?.bar.label, state.map, theme, relation, state.tau, state.sel, ...texts].join("|");
  const flow = useMemo(
    () => (
      <TextFlow
        axis={axis}
        texts={texts}
        {...(cross ? { names: CROSS_NAMES } : {})}
        label={cross ? "Tokens of the text and of the target" : "Tokens of the text"}
        multiple
        lookOf={(t) => lookOf(colours, axis, chosen, notes, t)}
      />
    ),
    [head, flowKey, task, state.notes, attribution?.key],
  );
  return (
    <div class="text-body">
      <div class="paper-side">
        <div class="choosing">
          {state.attribution !== "none" ? (
            <AttributionCaption of={attribution} />
          ) : (
            <p class="muted caption">{captionOf(head, chosen, relation, lines, state.loss && Boolean(task?.loss))}</p>
          )}
          <Toggle
            label="Choose several"
            title="Each click adds a token to the chosen ones, as Shift and click does"
            on={several}
            onChange={setSeveral}
          />
        </div>
        <div
          class={classes("paper", state.sentences && "sentences", bands && "banded", notes && "noted")}
          ref={paper}
          onClick={onClick}
          onMouseDown={(e) => e.shiftKey && e.preventDefault() /* else the browser selects the text between */}
          onPointerOver={(e) => point(tokenAt(e.target))}
          onPointerLeave={() => point(-1)}
          onKeyDown={onKeyDown}
          onFocusCapture={(e) => announce(tokenAt(e.target), true)}
        >
          <svg class="arcs" aria-hidden="true" ref={overlay} />
          {flow}
        </div>
        <TextLines {...{ head, lines, chosen, segments, paper, overlay, pointed }} />
        <PairRanking axis={axis} pair={pair} />
      </div>
      <TextLists {...{ head, chosen, segments, attribution }} onChoose={(t) => choose(t, false)} onPoint={point} />
    </div>
  );
}

// Draws lines and bands over the text, and says below it which are left out. Pointing at a token draws this alone: the text
// and its lists have thousands of elements.
function TextLines(props: {
  head: Head;
  lines: readonly LineHead[];
  chosen: readonly number[];
  segments: readonly Segment[];
  paper: { readonly current: HTMLDivElement | null };
  overlay: { readonly current: SVGSVGElement | null };
  pointed: { current: ((t: number) => void) | null }; // tells of the token under the pointer; -1: none
}) {
  const app = useApp();
  const { state, theme } = app;
  const { head, lines, chosen, segments, paper, overlay } = props;
  const [at, setAt] = useState(-1);
  useLayoutEffect(() => {
    props.pointed.current = setAt;
  }, []);
  const ends = endsOf(app, head, lines, new Set(at >= 0 ? [at] : chosen));
  useOverlay(paper, overlay, {
    ends: drawnEnds(ends.map(({ strongest }) => strongest)),
    quantity: ABOUT[state.relation].quantity,
    segments,
    lut: lutOf(state.map, "figure", theme),
  });
  return (
    <p class="muted caption" role="status">
      {head.axis.generated.includes(true) && "Underlined tokens were written by the model. "}
      {state.arcs && noteOf(state, ends, lines)}
    </p>
  );
}

const NO_ENDS: Ends = { count: 0, strongest: [] };

// Pairs, or attention when the text is coloured by it; of the chosen tokens if there are any. One list a head.
function endsOf({ state }: App, head: Head, lines: readonly LineHead[], around: ReadonlySet<number>): Ends[] {
  const { arcs, relation, tau, weigh } = state;
  if (!arcs) return [];
  if (relation === "similar") return [pairEnds(head, tau, around)];
  const joins = head.axis.types.includes(TARGET) ? "either" : relation;
  return lines.map(({ attention, lane }) =>
    attention ? attentionEnds(head.axis, weigh ? fractionsOf(attention) : attention, lane, around, joins) : NO_ENDS,
  );
}

function captionOf(
  head: Head,
  chosen: readonly number[],
  relation: Relation,
  lines: readonly LineHead[],
  losses: boolean,
): string {
  if (losses) return "Loss of each token: −ln of its probability given the tokens before it.";
  const { title, all } = ABOUT[relation];
  const names = chosen.map((t) => head.axis.labels[t]).join(", ");
  const shown = lines.find(({ attention }) => attention === head.attention);
  return (
    (shown && lines.length > 1 ? `Colours of ${shown.name}. ` : "") +
    (chosen.length ? `${title}: ${names}` : `${all}Choose a token to ask for it alone.`)
  );
}

// Names the lines that are not drawn, and why.
function noteOf({ relation, weigh }: State, ends: readonly Ends[], lines: readonly LineHead[]): string {
  const count = ends.reduce((sum, of) => sum + of.count, 0);
  const least = `${LINE_LEAST}${weigh ? " of the largest" : ""}`;
  const bare = lines.filter(({ attention }, lane) => attention && !ends[lane]?.count).map(({ name }) => name);
  const drawn = relation === "similar" ? "pairs" : `attentions of at least ${least}`;
  const shared = lines.length > 1 ? `, shared evenly among ${lines.length} heads` : "";
  return [
    lines.some(({ attention }) => !attention) && "Fetching maps…",
    count > ARCS_MAX && `Drawn: the ${ARCS_MAX} strongest of ${count.toLocaleString("en")} ${drawn}${shared}.`,
    bare.length > 0 && `No lines of ${bare.join(", ")}: no attention here reaches ${least}.`,
  ]
    .filter(Boolean)
    .join(" ");
}

function describeToken(head: Head, chosen: readonly number[], t: number, relation: Relation): string {
  const { labels, positions, sentences, types, generated } = head.axis;
  const cross = types.includes(TARGET);
  const shown = RELATIONS.filter((r) => chosen.length > 0 && (!cross || r === relation));
  const relations = shown.map((r) => `${ABOUT[r].title.toLowerCase()} ${format(relationOf(head, chosen, r)[t])}`);
  const name = `${labels[t]} ${positions[t]}`;
  const words = [
    cross ? `${isOfTarget(head.axis, t) ? "target" : "text"} ${name}` : name,
    `sentence ${sentences[t]}`,
    ...(generated[t] ? ["written by the model"] : []),
  ];
  return [...words, ...(chosen.length ? [`chosen: ${relations.join("   ")}`] : [])].join("   ");
}
