// A text as its tokens and what stands between them.
import { escapeBidi } from "../app/bidi";
import { SPACE } from "../app/token-labels";
import type { Axis } from "../maps/analysis";

export interface Span {
  t: number; // entry of the axis
  between: string; // the text since the entry before it
  cut: boolean; // that text is not analysed
  words: string; // its own text; special tokens have their name
}

interface Spans {
  spans: Span[];
  rest: string; // behind the last entry, not analysed
}

// Offsets count code points; strings count UTF-16 units. Returns the unit at which each code point begins.
export function unitsOf(text: string): Uint32Array {
  const starts: number[] = [];
  for (let at = 0; at < text.length; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) starts.push(at);
  starts.push(text.length);
  return Uint32Array.from(starts);
}

// Returns the entries of one token type, and the parts of their text that have no entry.
export function spansOf(axis: Axis, source: string, type: number): Spans {
  const of = Array.from({ length: axis.n }, (_, t) => t).filter((t) => axis.types[t] === type);
  if (of.some((t) => (axis.offsets[t]?.[0] ?? 0) < 0)) return { spans: spelledOf(axis, of), rest: "" };
  const units = unitsOf(source);
  const spans: Span[] = [];
  let gap = "",
    at = 0;
  for (const t of of) {
    const [first, last] = axis.offsets[t] ?? [0, 0];
    const special = axis.special[t];
    const [from, to] = special ? [at, at] : [units[first] ?? source.length, units[last] ?? source.length];
    const cut = at === 0 && from > 0;
    if (from > at) gap += source.slice(at, from);
    const bare = special || to <= from;
    const words = bare ? (axis.labels[t] ?? "") : escapeBidi(source.slice(Math.max(from, at), to));
    spans.push({ t, between: gap, cut, words });
    gap = bare && !special ? " " : ""; // a prompt's tokens have no text around them
    at = Math.max(at, to);
  }
  return { spans, rest: source.slice(at) };
}

// A text without offsets, as one that the model wrote: its tokens, with the spaces that they name. Where none names any,
// as in WordPiece, each word has one before it.
function spelledOf(axis: Axis, of: readonly number[]): Span[] {
  const labels = of.map((t) => axis.labels[t] ?? "");
  const named = labels.some((label) => label.startsWith(SPACE));
  return labels.map((label, k) => {
    const t = of[k] ?? 0;
    const apart = axis.special[t] || (named ? label.startsWith(SPACE) : !label.startsWith("##"));
    const words = named ? label.slice(label.startsWith(SPACE) ? 1 : 0) : label.replace(/^##/, "");
    return { t, between: apart && k ? " " : "", cut: false, words: words || label };
  });
}

// A part of a text that gets its elements at once.
export interface Block {
  from: number; // entries
  to: number; // excluded
  spans: readonly Span[];
  tail: string; // the text behind its last token
}

const ONE_BLOCK_MOST = 512; // tokens of a text that is one block
const LEAST = 48; // tokens of a block that ends with a sentence
const MOST = 80;

// Blocks end where a sentence does, if one ends in time. No spans, no blocks.
export function blocksOf(spans: readonly Span[], { n, sentences }: Pick<Axis, "n" | "sentences">): Block[] {
  const blocks: Block[] = [];
  let start = 0;
  spans.forEach(({ t }, k) => {
    const length = k + 1 - start;
    const ends = n > ONE_BLOCK_MOST && (length >= MOST || (length >= LEAST && sentences[t] !== sentences[t + 1]));
    if (k + 1 < spans.length && !ends) return;
    const part = spans.slice(start, k + 1).map((span, at) => (start && !at ? { ...span, between: "" } : span));
    blocks.push({ from: part[0]?.t ?? 0, to: t + 1, spans: part, tail: spans[k + 1]?.between ?? "" });
    start = k + 1;
  });
  return blocks;
}
