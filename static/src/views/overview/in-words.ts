// One sentence about what a head attends to in this text, and one about which tokens it treats as alike.
import type { Known } from "../../heads/figures";
import { labelOf, type Pattern } from "../../heads/patterns";
import type { Head } from "../../maps/analysis";
import { percent } from "../../maps/scale";

const ATTENDS: Record<Exclude<Pattern, "broad">, string> = {
  previous: "Each token looks at the one before it",
  next: "Each token looks at the one after it",
  self: "Each token looks at itself",
  first: "Tokens look at the first token",
  separator: "Tokens look at separators",
  punctuation: "Tokens look at punctuation",
  repeated: "Tokens look at other places of the same token",
  nearby: "Each token looks at those around it",
  sentence: "Each token looks at those of its own sentence",
};

// Tokens of causal models attend to none after them.
const BACKWARDS: typeof ATTENDS = { ...ATTENDS, nearby: "Each token looks at those just before it" };

const NAMED = 3; // tokens

// The tokens that receive most attention, with their fraction of it. Equal tokens count together.
function strongestTokens({ attention, axis, columns }: Head): string {
  // By column first: a step into a map of labels for each cell takes ten times as long.
  const totals = new Float64Array(columns.n);
  for (let k = 0; k < attention.length; k++) totals[k % columns.n] = (totals[k % columns.n] ?? 0) + (attention[k] ?? 0);
  const sums = new Map<string, number>();
  columns.labels.forEach((label, j) => sums.set(label, (sums.get(label) ?? 0) + (totals[j] ?? 0) / axis.n));
  return [...sums]
    .sort((a, b) => b[1] - a[1])
    .slice(0, NAMED)
    .map(([token, fraction]) => `${token} ${percent(fraction)}`)
    .join(", ");
}

export function attentionInWords(known: Known | undefined, head: Head): string {
  const profile = known?.profile;
  const label = profile && labelOf(profile);
  const strongest = strongestTokens(head);
  if (!profile || !label) return `Its attention goes to ${strongest}.`;
  const { causal } = head.axis;
  if (label === "broad") return `Attention is spread over nearly all ${causal ? "earlier " : ""}tokens: ${strongest}.`;
  const most = label === "first" || label === "separator" ? ` (${strongest})` : "";
  return `${(causal ? BACKWARDS : ATTENDS)[label]}: ${percent(profile.shares[label])} of its attention${most}.`;
}

interface Mean {
  sum: number;
  n: number;
}
const meanOf = ({ sum, n }: Mean): number => (n ? sum / n : NaN);

// Means of normalized similarity over pairs of ordinary tokens: of one sentence, of different ones.
function meansOf({ similarity, axis }: Head): { within: number; between: number; most: [number, number] | null } {
  const { n, sentences, special } = axis;
  const within: Mean = { sum: 0, n: 0 };
  const between: Mean = { sum: 0, n: 0 };
  let most: [number, number] | null = null;
  let [top, largest] = [-Infinity, 0];
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) {
      if (special[i] || special[j]) continue;
      const value = similarity[i * n + j] ?? 0;
      largest = Math.max(largest, Math.abs(value));
      const side = sentences[i] === sentences[j] ? within : between;
      side.sum += value;
      side.n++;
      if (value > top) [top, most] = [value, [i, j]];
    }
  const unit = largest || 1;
  return { within: meanOf(within) / unit, between: meanOf(between) / unit, most: top > 0 ? most : null };
}

const CLEAR = 0.1; // of the largest similarity: a mean that shows as a colour

// `named`: the colours on screen are those that the sentence names.
export function similarityInWords(head: Head, named: boolean): string {
  const { within, between, most } = meansOf(head);
  const [alike, opposites] = named ? ["alike (orange)", "opposites (violet)"] : ["alike", "opposites"];
  if (within > CLEAR && between < -CLEAR)
    return `It treats tokens of one sentence as ${alike}, and those of different sentences as ${opposites}.`;
  if (within > CLEAR && within > 2 * Math.abs(between)) return `It treats tokens of one sentence as ${alike}.`;
  if (within > CLEAR && between > CLEAR) return `It treats nearly all tokens as ${alike}.`;
  const [i, j] = most ?? [0, 0];
  return most
    ? `The tokens that it treats as most alike are ${head.axis.labels[i]} and ${head.axis.labels[j]}.`
    : "It treats no two tokens as alike.";
}
