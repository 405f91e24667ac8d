// First visit: three things to look at and why, each with what this model shows of this text.
import type { App } from "./app";
import type { Summary } from "./answer";
import { h, replace } from "./dom";
import { embedded } from "./embed";
import { soundValueOf, writeFigure, type Figure } from "./metrics";
import { percent } from "./scale";
import type { State } from "./state";
import { keep, kept } from "./storage";

const KEY = "headscope-hints-seen";

interface Hint {
  title: string;
  why: string;
  here: string;
  show: Partial<State>;
}

export class Hints {
  readonly element = h("aside", { class: "hints", "aria-label": "Where to begin" });
  private open = !embedded && kept("localStorage", KEY) === null;
  private shown = "";

  constructor(private readonly app: App) {}

  reopen(): void {
    this.open = true;
    this.app.set({ view: "overview" }, true);
  }

  private close(): void {
    this.open = false;
    keep("localStorage", KEY, "1");
    this.app.draw();
  }

  update(): void {
    const answer = this.app.state.view === "overview" && this.open ? this.app.overview().answer : null;
    this.element.hidden = !answer;
    if (!answer) return;
    const summary = this.app.figures(answer);
    const hints = hintsOf(summary, this.app.state.least);
    const shown = JSON.stringify(hints);
    if (this.shown === shown) return;
    this.shown = shown;
    replace(
      this.element,
      h(
        "button",
        { type: "button", class: "icon close", "aria-label": "Close the hints", onclick: () => this.close() },
        "×",
      ),
      h(
        "div",
        { class: "cards" },
        hints.map((hint) =>
          h(
            "section",
            {},
            h("h2", {}, hint.title),
            h("p", {}, hint.why),
            h(
              "p",
              { class: "here" },
              hint.here,
              " ",
              h("button", { type: "button", class: "link", onclick: () => this.app.set(hint.show, true) }, "Show"),
            ),
          ),
        ),
      ),
    );
  }
}

// The head with the largest sound figure.
function top(summary: Summary[][], figure: Figure, least: number): { l: number; h: number; value: number } | null {
  let best: { l: number; h: number; value: number } | null = null;
  summary.forEach((row, l) =>
    row.forEach((s, head) => {
      const value = soundValueOf(s, figure, least);
      if (value !== null && (best === null || value > best.value)) best = { l, h: head, value };
    }),
  );
  return best;
}

// Over a layer's high pairs; layers with a handful of them say nothing about distance.
function meanDistance(row: readonly Summary[]): number | null {
  const pairs = row.reduce((sum, s) => sum + s.high_pairs, 0);
  const distance = row.reduce((sum, s) => sum + s.high_pairs * (s.mean_distance ?? 0), 0);
  return pairs >= 5 * row.length ? distance / pairs : null;
}

function columnsHint(summary: Summary[][]): Hint {
  const best = top(summary, "separator_attention", 0);
  const heads = summary.flat();
  const many = heads.filter((s) => (s.separator_attention ?? 0) > 0.5).length;
  return {
    title: "A bright column is a token many attend to",
    why: "Rows attend to columns. Separators and sentence ends often gather what a head has no other use for.",
    here: best
      ? `Here ${many} of ${heads.length} heads put more than half of their attention there; most does layer ${best.l} head ${best.h}, ${percent(best.value)}.`
      : "Here there is nothing to attend to: the text is empty.",
    show: best ? { view: "head", layer: best.l, head: best.h, overlay: "mask", pin: [] } : { view: "head" },
  };
}

function alikeHint(summary: Summary[][], least: number): Hint {
  const best = top(summary, "repeated_share", least);
  return {
    title: "Each head has its own idea of “alike”",
    why: "Similarity compares what a head writes for two tokens. Some heads find the same word again, others a context.",
    here: best
      ? `Here layer ${best.l} head ${best.h} repeats tokens most: ${writeFigure(summary[best.l]![best.h]!, "repeated_share")} high pairs.`
      : `Here no head has ${least} high pairs at this threshold.`,
    show: best ? { view: "pairs", layer: best.l, head: best.h, pin: [] } : { view: "pairs" },
  };
}

function distanceHint(summary: Summary[][]): Hint {
  const known = summary
    .flatMap((row, l) => {
      const distance = meanDistance(row);
      return distance === null ? [] : [{ l, distance }];
    })
    .sort((a, b) => a.distance - b.distance);
  const [near, far] = [known[0], known.at(-1)];
  return {
    title: "Near or far",
    why: "Tokens that a head finds alike can be neighbours or lie a whole text apart; layers differ in it.",
    here:
      near && far && near !== far
        ? `Here high pairs of layer ${far.l} lie ${far.distance.toFixed(0)} tokens apart, those of layer ${near.l} only ${near.distance.toFixed(0)}.`
        : "Here no two layers have enough high pairs at this threshold to compare.",
    show: { tint: "mean_distance", sort: "none", show: "similarity" },
  };
}

export const hintsOf = (summary: Summary[][], least: number): Hint[] => [
  columnsHint(summary),
  alikeHint(summary, least),
  distanceHint(summary),
];
