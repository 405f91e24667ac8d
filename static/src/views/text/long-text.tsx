// The text whose maps are too large for a page: a chosen token fetches its row of them, or its column.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Entry } from "../../app/cache";
import { pairsRequest } from "../../app/requests";
import { nameOf, SUM, type Selection } from "../../app/selection";
import { hasSimilarities } from "../../app/sources";
import { shownTexts } from "../../app/stacks";
import type { State } from "../../app/state";
import { PairRanking, pairNumbers, type EntryPair } from "../../heads/pair-ranking";
import type { Axis } from "../../maps/analysis";
import { tokenAxisOf } from "../../maps/axis";
import { lutOf } from "../../maps/colour";
import { ColourBar } from "../../maps/colour-bar";
import { countAbove, pairsFrom } from "../../maps/pairs";
import { format } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { useExport } from "../../saving/offer";
import { madeOf } from "../../saving/provenance";
import { classes } from "../../ui/classes";
import { useApp } from "../../ui/context";
import { Button, Toggle } from "../../ui/controls";
import { StateToggle } from "../../ui/state-controls";
import { statusOf } from "../../ui/status";
import { tokenAt } from "../../ui/text-flow";
import { Toolbar } from "../../ui/toolbar";
import { attributingOf, withAttribution, type Attribution } from "../../passes/attribution";
import { ARCS_MAX, type End } from "./arcs";
import { AttributionCaption, saidOf } from "./attribution-caption";
import type { Block } from "./blocks";
import { ColourBy } from "./colour-by";
import { attributionColours, lookOf, relationColours } from "./colours";
import { AttributedTokens, NoneChosen, RelatedTokens } from "./lists";
import { LongFlow } from "./long-flow";
import { CHOSEN_MOST, leastOf, meanOf, pairsHere, partRequest, rowEnds, partsOf, rowOf, type Row } from "./long-rows";
import { ABOUT, RELATIONS, RELATION_CHOICES, type Relation } from "./relation";
import { useOverlay } from "./use-overlay";

interface Known {
  attribution: Attribution | null;
  axis: Axis;
  rows: readonly Row[];
  chosen: readonly number[];
}

export function LongText({ overview, selection }: { overview: Answer; selection: Selection }) {
  const app = useApp();
  const { state, theme } = app;
  const axis = tokenAxisOf(overview.encoding);
  const chosen = [...new Set(state.sel)].filter((t) => t < axis.n).slice(-CHOSEN_MOST);
  const pairs = wantsPairs(state, chosen, selection)
    ? app.cache.want(pairsRequest(state, selection.layer, selection.head))
    : null;
  const { parts, waits } = partsOf(app, selection, chosen, axis.n);
  const maximum = maximumOf(overview, selection, pairs);
  const answers = Array.from({ length: 2 * CHOSEN_MOST }, (_, k) => parts[k >> 1]?.[k % 2 ? "row" : "column"] ?? null);
  const rows = useMemo(() => parts.map((part) => rowOf(part, maximum)), [String(chosen), maximum, ...answers]);
  const relations = RELATION_CHOICES.filter(({ value }) => value !== "similar" || hasSimilarities(state));
  const attributing = attributingOf(app, overview, { axis, columns: axis });
  const attribution = attributing?.attribution ?? null;
  const known = { axis, rows, chosen, attribution };
  const colours = useMemo(() => {
    if (attributing) return attribution && attributionColours(app, attribution);
    const values = meanOf(rows, state.relation);
    return values && relationColours(app, values, chosen);
  }, [rows, state.relation, state.map, state.tau, state.center, theme, state.attribution, attribution?.key]);
  useExport(() => ((rows.length || attribution) && !waits ? longExport(app, overview, known, selection) : null));
  return (
    <>
      <Toolbar
        terms={["similarity", "lines", "sentences"]}
        more={<StateToggle field="sentences" />}
        rare={["sentences"]}
      >
        <ColourBy relations={relations} />
        <StateToggle field="arcs" />
        {colours && (
          <div class="legend">
            <ColourBar {...colours.bar} />
          </div>
        )}
      </Toolbar>
      {statusOf(app, waits)}
      {statusOf(app, pairs)}
      {statusOf(app, attributing?.waiting)}
      <Body {...{ known, selection, colours }} pairs={pairs?.answer ?? null} />
    </>
  );
}

// Pairs are drawn while no token is chosen. They also tell the largest similarity of summed heads.
const wantsPairs = ({ arcs, relation }: State, chosen: readonly number[], { head }: Selection): boolean =>
  relation === "similar" && ((arcs && !chosen.length) || (head === SUM && chosen.length > 0));

function maximumOf({ summary }: Answer, { layer, head }: Selection, pairs: Entry | null): number {
  return (head === SUM ? pairs?.answer?.pairs?.similarity[0] : summary?.[layer]?.[head]?.max_similarity) ?? NaN;
}

interface BodyProps {
  known: Known;
  selection: Selection;
  colours: ReturnType<typeof relationColours> | null;
  pairs: Answer | null;
}

function Body({ known, selection, colours, pairs }: BodyProps) {
  const app = useApp();
  const { state, theme } = app;
  const { relation } = state;
  const { axis, rows, chosen, attribution } = known;
  const paper = useRef<HTMLDivElement>(null);
  const move = useRef<((e: KeyboardEvent) => boolean) | null>(null);
  const [near, setNear] = useState<readonly Block[]>([]);
  const [goal, setGoal] = useState<{ t: number } | null>(null);
  const [several, setSeveral] = useState(false);
  const ends = useMemo(() => endsOf(state, rows, pairs, near), [rows, pairs, near, state.arcs, state.tau, relation]);
  const lut = lutOf(state.map, "figure", theme);
  const overlay = useRef<SVGSVGElement>(null);
  const redraw = useOverlay(paper, overlay, {
    ...{ ends: ends.slice(0, ARCS_MAX), quantity: ABOUT[relation].quantity, segments: [], lut },
  });
  const pair: EntryPair | null = chosen.length === 2 ? [chosen[0] ?? 0, chosen[1] ?? 0] : null;

  const choose = (t: number, more: boolean): void => {
    const next = chosen.includes(t) ? chosen.filter((u) => u !== t) : more ? [...chosen, t] : [t];
    app.set({ sel: next.slice(-CHOSEN_MOST) });
  };
  const announce = (t: number, aloud: boolean): void => app.announce(t < 0 ? "" : describeToken(known, t), aloud);
  const onKeyDown = (e: KeyboardEvent): void => {
    const t = tokenAt(document.activeElement);
    if (t < 0) return;
    if (e.key === " " || e.key === "Enter") choose(t, several || e.shiftKey || e.ctrlKey);
    else if (e.key === "Escape") app.set({ sel: [] });
    else if (!move.current?.(e)) return;
    e.preventDefault();
  };
  const onClick = (e: MouseEvent): void => {
    const t = tokenAt(e.target);
    if (t >= 0) choose(t, several || e.shiftKey || e.ctrlKey || e.metaKey);
    else if (getSelection()?.isCollapsed !== false) app.set({ sel: [] });
  };
  const lookKey = useMemo(() => ({}), [colours, String(chosen)]);
  return (
    <div class="text-body">
      <div class="paper-side">
        <div class="choosing">
          {state.attribution !== "none" ? (
            <AttributionCaption of={attribution} />
          ) : (
            <p class="muted caption">{captionOf(known, relation)}</p>
          )}
          <Toggle
            label="Choose several"
            title={`Each click adds a token to the chosen ones, up to ${CHOSEN_MOST}, as Shift and click does`}
            on={several}
            onChange={setSeveral}
          />
        </div>
        <div
          class={classes("paper", state.sentences && "sentences")}
          ref={paper}
          onClick={onClick}
          onMouseDown={(e) => e.shiftKey && e.preventDefault() /* else the browser selects the text between */}
          onPointerOver={(e) => announce(tokenAt(e.target), false)}
          onPointerLeave={() => announce(-1, false)}
          onKeyDown={onKeyDown}
          onFocusCapture={(e) => announce(tokenAt(e.target), true)}
        >
          <svg class="arcs" aria-hidden="true" ref={overlay} />
          <LongFlow
            axis={axis}
            texts={shownTexts(state)}
            lookKey={lookKey}
            lookOf={(t) =>
              colours
                ? lookOf(colours, axis, chosen, null, t)
                : { chosen: chosen.includes(t), class: classes(chosen.includes(t) && "chosen") }
            }
            goal={goal}
            move={move}
            onNear={(next) => {
              setNear(next);
              redraw();
            }}
          />
        </div>
        <p class="muted caption" role="status">
          {state.arcs && noteOf(state, chosen, ends)}
        </p>
        <PairRanking axis={axis} pair={pair} />
      </div>
      <LongLists
        known={known}
        selection={selection}
        onShow={(t) => setGoal({ t })}
        onPoint={(t) => announce(t, false)}
      />
    </div>
  );
}

function LongLists(props: {
  known: Known;
  selection: Selection;
  onShow: (t: number) => void;
  onPoint: (t: number) => void;
}) {
  const app = useApp();
  const { axis, rows, chosen, attribution } = props.known;
  const attributed = attribution && (
    <AttributedTokens axis={axis} values={attribution.values} onChoose={props.onShow} onPoint={props.onPoint} />
  );
  if (!chosen.length) return <div class="lists">{attributed}<NoneChosen /></div>; // prettier-ignore
  return (
    <div class="lists">
      {attributed}
      {RELATIONS.filter((relation) => relation !== "similar" || hasSimilarities(app.state)).map((relation) => {
        const values = meanOf(rows, relation);
        if (values)
          return (
            <RelatedTokens
              key={relation}
              {...{ axis, chosen, relation, values }}
              onChoose={props.onShow}
              onPoint={props.onPoint}
            />
          );
        return (
          relation !== app.state.relation && (
            <section class="card" key={relation}>
              <h2>{ABOUT[relation].title}</h2>
              <p class="muted">Takes another pass.</p>
              <Button onClick={() => app.set({ relation })}>Fetch “{ABOUT[relation].title}”</Button>
            </section>
          )
        );
      })}
    </div>
  );
}

// Lines of the chosen tokens; without any, the strongest pairs of the text near the window.
function endsOf(state: State, rows: readonly Row[], pairs: Answer | null, near: readonly Block[]): End[] {
  const { arcs, relation, tau } = state;
  if (!arcs) return [];
  if (rows.length) return rowEnds(rows, relation, leastOf(relation, tau));
  if (relation !== "similar" || !pairs?.pairs) return [];
  const found = pairsFrom(pairs.pairs);
  return pairsHere(found, countAbove(found, tau), (t) => near.some(({ from, to }) => from <= t && t < to));
}

function captionOf({ axis, chosen, rows }: Known, relation: Relation): string {
  const { title } = ABOUT[relation];
  if (!chosen.length) return "Choose a token: its attention and similarities are fetched.";
  const names = chosen.map((t) => `${axis.labels[t]} ${t}`).join(", ");
  return `${title}: ${names}${meanOf(rows, relation) ? "" : " …"}`;
}

function noteOf({ relation, tau }: State, chosen: readonly number[], ends: readonly End[]): string {
  const drawn = `the ${ARCS_MAX} strongest`;
  if (!chosen.length)
    return relation === "similar"
      ? `Lines: ${drawn} pairs with a token near the window, of similarity ${tau} or more.`
      : "";
  const what = relation === "similar" ? "pairs" : `attentions of at least ${leastOf(relation, tau)}`;
  return ends.length > ARCS_MAX ? `Drawn: ${drawn} of ${ends.length.toLocaleString("en")} ${what}.` : "";
}

function describeToken({ axis, rows, chosen, attribution }: Known, t: number): string {
  const relations = RELATIONS.flatMap((relation) => {
    const values = meanOf(rows, relation);
    return values ? [`${ABOUT[relation].title.toLowerCase()} ${format(values[t])}`] : [];
  });
  const words = [`${axis.labels[t]} ${t}`, `sentence ${axis.sentences[t]}`];
  if (axis.generated[t]) words.push("written by the model");
  if (attribution) words.push(saidOf(attribution, t));
  return [...words, ...(chosen.length && relations.length ? [`chosen: ${relations.join("   ")}`] : [])].join("   ");
}

// The known relations of each token.
function longExport(app: App, overview: Answer, known: Known, selection: Selection): Exportable {
  const { axis, rows, chosen, attribution } = known;
  const { state } = app;
  const part = partRequest(state, selection, chosen[0] ?? 0, axis.n, state.relation === "from");
  const request = attribution ? withAttribution(part, attribution) : part;
  const columns = RELATIONS.flatMap((relation) => {
    const values = meanOf(rows, relation);
    return values ? [{ name: ABOUT[relation].title.toLowerCase().replace(" ", "_"), values }] : [];
  });
  if (attribution) columns.push({ name: attribution.method, values: attribution.values });
  const pair: EntryPair | null = chosen.length === 2 ? [chosen[0] ?? 0, chosen[1] ?? 0] : null;
  return {
    ...madeOf(app, overview, `text-${nameOf(selection)}`, request),
    rows: () => [
      ["position", "token", "sentence", "chosen", ...columns.map(({ name }) => name)],
      ...axis.labels.map((label, t) => [
        ...[t, label, axis.sentences[t] ?? "", String(chosen.includes(t))],
        ...columns.map(({ values }) => values[t] ?? NaN),
      ]),
    ],
    heads: pairNumbers(app, axis, pair),
    figure: false,
  };
}
