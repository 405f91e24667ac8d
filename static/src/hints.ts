// First visit: three things to look at and why, from the paper's findings, each with what this text shows.
import type { App } from "./app";
import type { Answer, Summary } from "./answer";
import { h, replace } from "./dom";
import { FIGURES, valueOf, type Figure } from "./metrics";
import type { State } from "./state";

const KEY = "headscope-hints-seen";

interface Hint {
  title: string;
  why: string;
  here: string;
  show: Partial<State>;
}

export class Hints {
  readonly element = h("aside", { class: "hints", "aria-label": "Where to begin" });
  private open = localStorage.getItem(KEY) === null;
  private shownFor: Summary[][] | null = null;

  constructor(private readonly app: App) {}

  reopen(): void {
    this.open = true;
    this.app.set({ view: "overview" }, true);
  }

  private close(): void {
    this.open = false;
    localStorage.setItem(KEY, "1");
    this.app.draw();
  }

  update(): void {
    const answer = this.app.state.view === "overview" && this.open ? this.app.overview().answer : null;
    this.element.hidden = !answer;
    if (!answer) return;
    const summary = this.app.figures(answer);
    if (this.shownFor === summary) return;
    this.shownFor = summary;
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
        hintsOf(answer, summary).map((hint) =>
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

// The head with the largest figure among those that have enough high pairs to tell.
function top(summary: Summary[][], figure: Figure, pairs: number): { l: number; h: number; value: number } {
  let best = { l: 0, h: 0, value: -Infinity };
  summary.forEach((row, l) =>
    row.forEach((s, head) => {
      const value = valueOf(s, figure);
      if (value !== null && s.high_pairs >= pairs && value > best.value) best = { l, h: head, value };
    }),
  );
  return best;
}

function meanDistance(row: readonly Summary[]): number {
  let pairs = 0,
    sum = 0;
  for (const s of row) {
    pairs += s.high_pairs;
    sum += s.high_pairs * (s.mean_distance ?? 0);
  }
  return pairs ? sum / pairs : NaN;
}

export function hintsOf(answer: Answer, summary: Summary[][]): Hint[] {
  const separators = top(summary, "separator_attention", 0);
  const repeated = top(summary, "repeated_share", 10);
  const distances = summary.map(meanDistance);
  // Layers with a handful of pairs say nothing about distance.
  const enough = (l: number): boolean =>
    summary[l]!.reduce((sum, s) => sum + s.high_pairs, 0) >= 5 * summary[l]!.length;
  const known = distances
    .map((d, l) => [d, l] as const)
    .filter(([, l]) => enough(l))
    .sort((a, b) => a[0] - b[0]);
  const [near, far] = [known[0], known.at(-1)];
  const wrote = (figure: Figure, value: number): string =>
    FIGURES[figure].write(Number.isFinite(value) ? value : null);
  return [
    {
      title: "Columns are where attention gathers",
      why: "In the paper’s last layers every token looks at the separators: bright columns that cut the text into parts.",
      here: `Here layer ${separators.l} head ${separators.h} puts ${wrote("separator_attention", separators.value)} of its attention on [CLS], [SEP] and sentence ends.`,
      show: { view: "head", layer: separators.l, head: separators.h, overlay: "mask", pin: [] },
    },
    {
      title: "Each head has its own idea of “alike”",
      why: "Similarity compares what a head writes for two tokens. Some heads find the same word again, others a context.",
      here: `Here layer ${repeated.l} head ${repeated.h} repeats tokens most: ${wrote("repeated_share", repeated.value)} of its high pairs.`,
      show: { view: "pairs", layer: repeated.l, head: repeated.h, pin: [] },
    },
    {
      title: "From the whole text to the neighbourhood",
      why: "Early layers link tokens far apart, middle layers close ones; the last settle within a sentence.",
      here:
        near && far
          ? `Here high pairs of layer ${far[1]} lie ${far[0].toFixed(0)} tokens apart, those of layer ${near[1]} only ${near[0].toFixed(0)}.`
          : `Here no head of ${answer.layers.length} layers has a high pair at this threshold.`,
      show: { tint: "mean_distance", sort: "none", show: "similarity" },
    },
  ];
}
