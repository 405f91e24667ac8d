// All heads at once: thumbnails as a grid, filtered, sorted and coloured by a figure.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "../../app/answer";
import { perFrame } from "../../app/frame";
import { FIGURES, likeOf, METRICS, rangeOf, valueOf, type Known, type Metric } from "../../heads/figures";
import { figureOf, isMixed, nearnessOf, needsMaps, orderedHeads, wantedPattern, type Place } from "../../heads/order";
import { hasSimilarities } from "../../app/sources";
import { isCross } from "../../app/stacks";
import { headsOf } from "../../heads/heads";
import { CENTRE_IN_FRAME, CentreInFrame } from "../../heads/measure-controls";
import { ColourBar } from "../../maps/colour-bar";
import { percent } from "../../maps/scale";
import { useExport } from "../../saving/offer";
import { classes } from "../../ui/classes";
import { useApp } from "../../ui/context";
import { Alternative, Button, Field, Input, Segmented, Select } from "../../ui/controls";
import { StateSelect } from "../../ui/state-controls";
import { Toolbar } from "../../ui/toolbar";
import { useResize } from "../../ui/resize";
import { statusOf } from "../../ui/status";
import { blockOf } from "../../heads/pooled";
import { overviewBars } from "./bars";
import { FiguresTable } from "./figures-table";
import { Grid, type Captions } from "./grid";
import { canRest, HeadCard } from "./head-card";
import { overviewExport } from "./saved";
import { Thumbnails } from "./thumbnails";

const SHOW_CHOICES = [
  { value: "attention", label: "Attention" },
  { value: "similarity", label: "Similarity" },
  { value: "both", label: "Both", title: "Attention above, similarity below, with the pattern of each head: larger" },
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
  const summary = answer && headsOf(app).figures(answer);
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

  // Small thumbnails share the height below the controls, which open and close without the grid.
  useLayoutEffect(() => {
    const { current } = grid;
    if (current) current.style.setProperty("--top", `${current.getBoundingClientRect().top + scrollY}px`);
  });
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

  const pointed = useRef<((at: Place | null) => void) | null>(null);
  const point = (at: Place | null, aloud: boolean): void => {
    pointed.current?.(at);
    const one = at && summary?.[at.l]?.[at.h];
    const words = one && !isCross(state) ? wordsOf(one) : [];
    app.announce(one ? [`Layer ${at.l} · Head ${at.h}`, ...words].join("   ") : "", aloud);
  };
  // The same tree as long as it shows the same: each map that comes is a drawing.
  const chosenHead = app.selection(answer);
  const rests = answer !== null && canRest(answer);
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
          point={point}
        />
      ),
    [order.map(({ l, h }) => `${l}.${h}`).join(), shape?.heads, summary, near, state, app.theme, chosenHead.layer, chosenHead.head, entry.status], // prettier-ignore
  );
  return (
    <section class="view overview" aria-label="Heads">
      <Controls like={likeOf(state.seek)?.join("·")}>
        <p class="about muted">
          {isCross(state) &&
            "Cross heads attend from each token of the target (rows) to those of the text (columns). Their similarity is among the target’s tokens."}
          {state.center && hasSimilarities(state) && <Centred />}
        </p>
        {answer && (
          <div class={classes("legend", state.small && rests && !figure && "besides")}>
            {overviewBars(app, state.show, figure, captions.range, blockOf(answer), state.small).map((bar) => (
              <ColourBar key={bar.label} {...bar} />
            ))}
          </div>
        )}
      </Controls>
      {found?.entry ? statusOf(app, found.entry) : statusOf(app, entry)}
      {summary?.[0]?.[0]?.sample && order.length === 0 && <NoHead />}
      <div class={state.small ? "beside" : ""}>
        {hasGrid && drawnGrid}
        {answer && state.small && (
          <CardAt
            answer={answer}
            summary={summary}
            rest={rests ? { l: chosenHead.layer, h: chosenHead.head } : null}
            pointed={pointed}
          />
        )}
      </div>
      {answer?.summary && summary && (
        <Alternative title="All figures as a table">
          <FiguresTable answer={answer} summary={summary} />
        </Alternative>
      )}
    </section>
  );
}

// The card of the head under the pointer, or else of `rest`. A move of the pointer draws it alone, not the grid.
function CardAt(props: {
  answer: Answer;
  summary: Known[][] | null;
  rest: Place | null;
  pointed: { current: ((at: Place | null) => void) | null };
}) {
  const { answer, summary, rest } = props;
  const [pointed, setPointed] = useState<Place | null>(null);
  // Draws the last one of the heads that the pointer passes within a frame.
  useLayoutEffect(() => {
    let last: Place | null = null;
    const draw = perFrame(() => setPointed(last));
    props.pointed.current = (at) => {
      last = at;
      draw();
    };
  }, []);
  const at = pointed ?? rest;
  return at && <HeadCard answer={answer} at={at} known={summary?.[at.l]?.[at.h]} />;
}

// Says that similarities are not those of the paper, and leads back to them.
function Centred() {
  const app = useApp();
  // The same head stays chosen. The button goes, so the view gets the focus.
  const leave = (): void => {
    app.set({ center: false, ...app.selection(app.overview().answer) }, true);
    app.announce("Similarity is the paper’s S", true);
    document.getElementById("stage")?.focus({ preventScroll: true });
  };
  return (
    <>
      Similarity is centred: each head’s mean over the text is taken away first.{" "}
      <Button class="link" onClick={leave}>
        Show the paper’s S
      </Button>
    </>
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

function Controls({ like, children }: { like: string | undefined; children: ComponentChildren }) {
  const app = useApp();
  const { state } = app;
  const { show, least } = state;
  const cross = isCross(state); // has no figures to sort by
  const more = !cross && (
    <>
      <SortAndFind like={like} />
      <StateSelect field="tint" step options={metricOptions("none")} />
      <Field label="High pairs at least" class="least">
        <Input
          type="number"
          min={0}
          title="Heads with fewer high pairs come last and stay uncoloured: a fraction of three pairs says little"
          value={String(least)}
          onInput={(e) => {
            const value = e.currentTarget.valueAsNumber;
            if (Number.isInteger(value) && value >= 0) app.set({ least: value });
          }}
        />
      </Field>
      <CentreInFrame />
    </>
  );
  return (
    <Toolbar
      terms={["arrangement", "attention", "similarity", "figure", "pattern", "seek", "pairs"]}
      more={more}
      named="Find heads…"
      rare={cross ? [] : ["sort", "only", "seek", "tint", "least", ...CENTRE_IN_FRAME]}
    >
      <Segmented
        label="Show"
        value={show}
        choices={hasSimilarities(state) ? SHOW_CHOICES : SHOW_CHOICES.filter(({ value }) => value === "attention")}
        onChange={(value) => app.set({ show: value, small: value !== "both" }, "merge")}
      />
      {children}
    </Toolbar>
  );
}

function SortAndFind({ like }: { like: string | undefined }) {
  const app = useApp();
  const { state } = app;
  return (
    <>
      <Select
        label="Sort by"
        value={like ? "near" : state.sort}
        options={[...(like ? [["near", `distance to ${like}`] as const] : []), ...metricOptions("layer and head")]}
        onChange={(sort) => sort !== "near" && app.set({ sort, ...(like ? { seek: "" } : {}) }, true)}
      />
      {state.sort !== "none" && !like && (
        <Button
          class="icon"
          aria-label={state.down ? "Largest first" : "Smallest first"}
          title={state.down ? "Largest first" : "Smallest first"}
          onClick={() => app.set({ down: !state.down }, true)}
        >
          {state.down ? "↓" : "↑"}
        </Button>
      )}
      <StateSelect field="only" step />
      <Field label="Find heads" class="seek">
        <Input
          type="search"
          placeholder="7·5, previous"
          title="By layer and head, by words of the head's pattern, or “like 7·5”: nearest to that head first"
          value={state.seek}
          onInput={(e) => app.set({ seek: e.currentTarget.value }, "merge")}
        />
      </Field>
    </>
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
