// First visit: three things to look for and why, each with an instance of it in this text.
import type { Summary } from "../../app/answer";
import type { State } from "../../app/state";
import { soundValueOf, writeFigure, type Figure } from "../../heads/figures";
import { percent } from "../../maps/scale";
import { useApp } from "../../ui/context";

interface Hint {
  title: string;
  why: string;
  here: string;
  show: Partial<State>;
}

export function Hints({ onClose }: { onClose: () => void }) {
  const app = useApp();
  const answer = app.state.view === "overview" ? app.overview().answer : null;
  if (!answer) return null;
  return (
    <aside class="hints" aria-label="Where to begin">
      <button type="button" class="icon close" aria-label="Close the hints" onClick={onClose}>
        ×
      </button>
      <div class="cards">
        {hintsOf(app.figures(answer), app.state.least).map(({ title, why, here, show }) => (
          <section key={title}>
            <h2>{title}</h2>
            <p>{why}</p>
            <p class="here">
              {here}{" "}
              <button type="button" class="link" onClick={() => app.set(show, true)}>
                Show
              </button>
            </p>
          </section>
        ))}
      </div>
    </aside>
  );
}

interface Best {
  l: number;
  h: number;
  value: number;
  summary: Summary;
}

// The head with the largest sound figure.
const best = (summary: Summary[][], figure: Figure, least: number): Best | undefined =>
  summary
    .flatMap((row, l) => row.map((s, h) => ({ l, h, value: soundValueOf(s, figure, least), summary: s })))
    .filter((head): head is Best => head.value !== null)
    .reduce<Best | undefined>((top, head) => (top && top.value >= head.value ? top : head), undefined);

// Over a layer's high pairs; null for a handful of them.
function meanDistance(row: readonly Summary[]): number | null {
  const pairs = row.reduce((sum, s) => sum + s.high_pairs, 0);
  const distance = row.reduce((sum, s) => sum + s.high_pairs * (s.mean_distance ?? 0), 0);
  return pairs >= 5 * row.length ? distance / pairs : null;
}

function columnsHint(summary: Summary[][]): Hint {
  const top = best(summary, "separator_attention", 0);
  const heads = summary.flat();
  const many = heads.filter((s) => (s.separator_attention ?? 0) > 0.5).length;
  return {
    title: "A strong column: many tokens attend to this one",
    why: "Rows attend to columns. Separators and sentence ends often receive attention that a head has no other use for.",
    here: top
      ? `Here ${many} of ${heads.length} heads put more than half of their attention there. The most is ${percent(top.value)}, in layer ${top.l} head ${top.h}.`
      : "Here there is nothing to attend to: the text is empty.",
    show: top ? { view: "head", layer: top.l, head: top.h, overlay: "mask", pin: [] } : { view: "head" },
  };
}

function alikeHint(summary: Summary[][], least: number): Hint {
  const top = best(summary, "repeated_share", least);
  return {
    title: "Each head has its own idea of “alike”",
    why: "Similarity compares what a head writes for two tokens. Some heads match the same word, others a context.",
    here: top
      ? `Here layer ${top.l} head ${top.h} repeats tokens most: ${writeFigure(top.summary, "repeated_share")} high pairs.`
      : `Here no head has ${least} high pairs at this threshold.`,
    show: top ? { view: "pairs", layer: top.l, head: top.h, pin: [] } : { view: "pairs" },
  };
}

function distanceHint(summary: Summary[][]): Hint {
  const known = summary
    .map((row, l) => ({ l, distance: meanDistance(row) }))
    .filter((row): row is { l: number; distance: number } => row.distance !== null)
    .sort((a, b) => a.distance - b.distance);
  const [near, far] = [known[0], known.at(-1)];
  return {
    title: "Near or far",
    why: "Two tokens that a head finds alike can be neighbours or a whole text apart. Layers differ in this.",
    here:
      near && far && near !== far
        ? `Here high pairs of layer ${far.l} are ${far.distance.toFixed(0)} tokens apart, those of layer ${near.l} only ${near.distance.toFixed(0)}.`
        : "Here no two layers have enough high pairs at this threshold to compare.",
    show: { tint: "mean_distance", sort: "none", show: "similarity" },
  };
}

const hintsOf = (summary: Summary[][], least: number): Hint[] => [
  columnsHint(summary),
  alikeHint(summary, least),
  distanceHint(summary),
];
