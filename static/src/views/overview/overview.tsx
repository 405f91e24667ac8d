// All heads at once: thumbnails as a grid, filtered, sorted and coloured by a figure.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "../../app/answer";
import { FIGURES, likeOf, METRICS, rangeOf, valueOf, type Known, type Metric } from "../../heads/figures";
import { figureOf, isMixed, nearnessOf, needsMaps, orderedHeads, wantedPattern } from "../../heads/order";
import { hasSimilarities } from "../../app/sources";
import { isCross } from "../../app/stacks";
import { headsOf } from "../../heads/heads";
import { CENTRE_IN_FRAME, CentreInFrame } from "../../heads/measure-controls";
import { ColourBar } from "../../maps/colour-bar";
import { percent } from "../../maps/scale";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Alternative, Button, Field, Input, Segmented, Select } from "../../ui/controls";
import { StateSelect } from "../../ui/state-controls";
import { Toolbar } from "../../ui/toolbar";
import { useResize } from "../../ui/resize";
import { statusOf } from "../../ui/status";
import { blockOf } from "../../heads/pooled";
import { overviewBars } from "./bars";
import { FiguresTable } from "./figures-table";
import { canRest, Enlarged, restingIn, type Pointed } from "./enlarged";
import { Grid, type Captions } from "./grid";
import { overviewExport } from "./saved";
import { Thumbnails } from "./thumbnails";

const ARRANGEMENTS = [
  { value: "small", label: "Small", title: "All heads in the window, one map each" },
  { value: "grid", label: "Large", title: "Both maps of each head, with its pattern" },
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

  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [resting, setResting] = useState<Pointed | null>(null);
  useLayoutEffect(() => {
    const now = restingIn(grid.current);
    const key = (at: Pointed | null): string => (at ? [at.l, at.h, at.box.right, at.box.top].join(" ") : "");
    if (key(now) !== key(resting)) setResting(now);
  });
  const enlarged = pointed ?? (answer && canRest(answer) ? resting : null);
  const point = (at: Pointed | null, aloud: boolean): void => {
    setPointed(at);
    const one = at && summary?.[at.l]?.[at.h];
    const words = one && !isCross(state) ? wordsOf(one) : [];
    app.announce(one ? [`Layer ${at.l} · Head ${at.h}`, ...words].join("   ") : "", aloud);
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
          point={point}
        />
      ),
    [order.map(({ l, h }) => `${l}.${h}`).join(), shape?.heads, summary, near, state, app.theme, chosenHead.layer, chosenHead.head, entry.status], // prettier-ignore
  );
  return (
    <section class="view overview" aria-label="Overview">
      <Controls like={likeOf(state.seek)?.join("·")} />
      <div class="about">
        <p class="intro">
          headscope shows where each attention head of a transformer looks, and which tokens it treats as alike.
          {state.center && hasSimilarities(state) && <Centred />}
          {isCross(state) &&
            " Cross heads attend from each token of the target (rows) to those of the text (columns). Their similarity is among the target’s tokens."}
        </p>
        {answer && (
          <div class="legend">
            {overviewBars(app, figure, captions.range, blockOf(answer)).map((bar) => (
              <ColourBar key={bar.label} {...bar} />
            ))}
          </div>
        )}
      </div>
      {found?.entry ? statusOf(app, found.entry) : statusOf(app, entry)}
      {summary?.[0]?.[0]?.sample && order.length === 0 && <NoHead />}
      {hasGrid && drawnGrid}
      {answer && enlarged && state.small && (
        <Enlarged
          key={`${enlarged.l}.${enlarged.h}`}
          answer={answer}
          at={enlarged}
          resting={!pointed}
          known={summary?.[enlarged.l]?.[enlarged.h]}
        />
      )}
      {answer?.summary && summary && (
        <Alternative title="All figures as a table">
          <FiguresTable answer={answer} summary={summary} />
        </Alternative>
      )}
    </section>
  );
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
      {" "}
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

function Controls({ like }: { like: string | undefined }) {
  const app = useApp();
  const { state } = app;
  const { small, show, least } = state;
  const cross = isCross(state); // has no figures to sort by
  const more = !cross && (
    <>
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
      rare={cross ? [] : ["tint", "least", ...CENTRE_IN_FRAME]}
    >
      <Segmented
        label="Heads as"
        value={small ? "small" : "grid"}
        choices={ARRANGEMENTS}
        onChange={(value) => {
          const one = value === "small" && show === "both" ? { show: "attention" as const } : {};
          const both = value === "grid" && small ? { show: "both" as const } : {};
          app.set({ small: value === "small", ...one, ...both }, true);
        }}
      />
      <Segmented
        label="Show"
        value={show}
        choices={hasSimilarities(state) ? SHOW_CHOICES : SHOW_CHOICES.filter(({ value }) => value === "attention")}
        onChange={(value) => app.set({ show: value, ...(value === "both" ? { small: false } : {}) }, "merge")}
      />
      {!cross && <SortAndFind like={like} />}
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
