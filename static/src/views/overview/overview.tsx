// All heads at once: thumbnails as a grid, filtered, sorted and coloured by a figure.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Answer } from "../../app/answer";
import {
  FIGURES,
  likeOf,
  METRICS,
  ONLY,
  onlyName,
  rangeOf,
  valueOf,
  type Figure,
  type Known,
  type Metric,
} from "../../heads/figures";
import { figureOf, isMixed, nearnessOf, needsMaps, orderedHeads, wantedPattern } from "../../heads/order";
import { ColourBar } from "../../maps/colour-bar";
import { percent } from "../../maps/scale";
import { useApp, useExport } from "../../ui/context";
import { Alternative, Button, Field, Input, Segmented, Select } from "../../ui/controls";
import { StateSelect } from "../../ui/state-controls";
import { openGlossary } from "../../ui/explain";
import { useResize } from "../../ui/resize";
import { statusOf } from "../../ui/status";
import { overviewBars } from "./bars";
import { FiguresTable } from "./figures-table";
import { Grid, type Captions } from "./grid";
import { overviewExport } from "./saved";
import { Thumbnails } from "./thumbnails";

const ARRANGEMENTS = [
  { value: "grid", label: "Large" },
  { value: "small", label: "Small", title: "All heads in the window, one map each" },
] as const;

const SHOW_CHOICES = [
  { value: "both", label: "Both", title: "Attention above, similarity below" },
  { value: "attention", label: "Attention" },
  { value: "similarity", label: "Similarity" },
] as const;

const metricOptions = (none: string): (readonly [Metric, string])[] =>
  METRICS.map((name) => [name, name === "none" ? none : FIGURES[name].name]);

export function OverviewView() {
  const app = useApp();
  const { state } = app;
  const entry = app.overview();
  const { answer } = entry;
  const thumbs = useMemo(() => new Thumbnails(app), [app]);
  const grid = useRef<HTMLDivElement>(null);
  const known = useRef<Answer | null>(null);
  if (answer && known.current !== answer) performance.mark("overview-answered");
  if (answer) thumbs.ask(answer);
  known.current = answer;

  const shape = app.shape(answer, state.model);
  if (shape) thumbs.build(shape);
  const summary = answer && app.figures(answer);
  const found = answer && nearnessOf(app, answer);
  const near = found?.nearness ?? null;
  const order = summary ? orderedHeads(thumbs.all, summary, state, near) : thumbs.all;
  const figure = near ? null : figureOf(state);
  const captions: Captions = {
    summary,
    near,
    figure,
    range: summary && figure && rangeOf(summary, figure, state.least),
  };

  useLayoutEffect(() => {
    if (!answer) thumbs.look();
    else thumbs.fill(answer, needsMaps(state));
  });
  useEffect(() => {
    const onScroll = (): void => {
      if (app.state.view === "overview") app.draw();
    };
    addEventListener("scroll", onScroll, { passive: true });
    return () => removeEventListener("scroll", onScroll);
  }, [app]);
  const hasGrid = shape !== null && (answer !== null || entry.status === "loading");
  useResize(grid, app.draw, [app, hasGrid]);
  useExport(() => (answer && summary ? overviewExport(app, answer, summary, order) : null));

  const announce = (l: number, head: number, aloud: boolean): void => {
    const one = summary?.[l]?.[head];
    if (one) app.announce(`Layer ${l} · Head ${head}   ${wordsOf(one).join("   ")}`, aloud);
  };
  // The same tree as long as it shows the same: each map that comes is a drawing.
  const chosenHead = app.selection(answer);
  const drawnGrid = useMemo(
    () =>
      shape && (
        <Grid
          order={order}
          heads={shape.heads}
          sorted={answer !== null && isMixed(state)}
          captions={captions}
          chosen={chosenHead}
          early={!answer}
          place={grid}
          announce={announce}
        />
      ),
    [order.map(({ l, h }) => `${l}.${h}`).join(), shape?.heads, summary, near, state, app.theme, chosenHead.layer, chosenHead.head, entry.status], // prettier-ignore
  );
  return (
    <section class="view overview" aria-label="Overview">
      <p class="intro">
        headscope shows where each attention head of a transformer looks, and which tokens it treats as alike.{" "}
        <Button class="link" onClick={openGlossary}>
          Glossary
        </Button>
      </p>
      <Toolbar figure={figure} range={captions.range} ready={answer !== null} like={likeOf(state.seek)?.join("·")} />
      {found?.entry ? statusOf(app, found.entry) : statusOf(app, entry)}
      {answer && order.length === 0 && <NoHead />}
      {hasGrid && drawnGrid}
      {answer && summary && (
        <Alternative title="All figures as a table">
          <FiguresTable answer={answer} summary={summary} />
        </Alternative>
      )}
    </section>
  );
}

// The head's figures in one line.
function wordsOf(head: Known): string[] {
  const figures = [
    "high_pairs",
    "repeated_share",
    "same_sentence_share",
    "mean_distance",
    "separator_attention",
  ] as const;
  const words = figures.map((name) => `${FIGURES[name].short} ${FIGURES[name].write(valueOf(head, name))}`);
  if (!head.profile) return words;
  const { previous, self, next } = head.profile.shares;
  return [`previous ${percent(previous)}   self ${percent(self)}   next ${percent(next)}`, ...words];
}

function Toolbar(props: {
  figure: Figure | null;
  range: [number, number] | null;
  ready: boolean;
  like: string | undefined; // the head whose nearest are sought
}) {
  const app = useApp();
  const { state } = app;
  return (
    <div class="with-legend">
      <div class="toolbar">
        <Segmented
          legend="Heads as"
          help="arrangement"
          value={state.small ? "small" : "grid"}
          choices={ARRANGEMENTS}
          onChange={(value) => {
            const small = value === "small";
            const one = small && state.show === "both" ? { show: "attention" as const } : {};
            app.set({ small, ...one }, true);
          }}
        />

        <Segmented
          help="attention"
          legend="Show"
          value={state.show}
          choices={SHOW_CHOICES}
          onChange={(show) => app.set({ show, ...(show === "both" ? { small: false } : {}) }, "merge")}
        />
        <Select
          label="Sort by"
          help="figure"
          value={props.like ? "near" : state.sort}
          options={[
            ...(props.like ? [["near", `distance to ${props.like}`] as const] : []),
            ...metricOptions("layer and head"),
          ]}
          onChange={(sort) => sort !== "near" && app.set({ sort, ...(props.like ? { seek: "" } : {}) }, true)}
        />
        {state.sort !== "none" && !props.like && (
          <Button onClick={() => app.set({ down: !state.down }, true)}>
            {state.down ? "↓ largest first" : "↑ smallest first"}
          </Button>
        )}
        <StateSelect label="Colour by" help="figure" field="tint" step options={metricOptions("none")} />

        <StateSelect
          label="Pattern"
          help="pattern"
          field="only"
          step
          options={ONLY.map((name) => [name, onlyName(name)] as const)}
        />
        <Field label="Find heads" class="seek" help="seek">
          <Input
            type="search"
            placeholder="7·5, previous, like 7·5 …"
            title="By layer and head, by words of the head's pattern, or “like 7·5”: nearest to that head first"
            value={state.seek}
            onInput={(e) => app.set({ seek: e.currentTarget.value }, "merge")}
          />
        </Field>
        <Field label="High pairs at least" class="least" help="pairs">
          <Input
            type="number"
            min={0}
            title="Heads with fewer high pairs come last and stay uncoloured: a fraction of three pairs says little"
            value={String(state.least)}
            onInput={(e) => {
              const least = e.currentTarget.valueAsNumber;
              if (Number.isInteger(least) && least >= 0) app.set({ least });
            }}
          />
        </Field>
      </div>
      {props.ready && (
        <div class="legend">
          {overviewBars(app, props.figure, props.range).map((bar) => (
            <ColourBar key={bar.label} {...bar} />
          ))}
        </div>
      )}
    </div>
  );
}

// Offers the heads with most of the chosen pattern.
function NoHead() {
  const app = useApp();
  const pattern = wantedPattern(app.state);
  return (
    <div class="notice" role="status">
      <p>No head has this pattern. Widen the filter or the search.</p>
      {pattern && (
        <Button onClick={() => app.set({ only: "all", seek: "", sort: pattern, down: true }, true)}>
          Show all, sorted by: {FIGURES[pattern].name.toLowerCase()}
        </Button>
      )}
    </div>
  );
}
