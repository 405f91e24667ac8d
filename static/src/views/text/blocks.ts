// A long text in blocks. Only those near the window have an element for each token; the others are plain text.
import type { Span } from "../../ui/text-spans";
import type { Box } from "./arcs";

const LEAST = 96; // tokens of a block that ends with a sentence
const MOST = 160;

export interface Block {
  from: number; // entries
  to: number; // excluded
  spans: readonly Span[];
  tail: string; // the text behind its last token
}

// Blocks end where a sentence does, if one ends in time. No spans, no blocks.
export function blocksOf(spans: readonly Span[], sentences: readonly number[]): Block[] {
  const blocks: Block[] = [];
  let start = 0;
  spans.forEach(({ t }, k) => {
    const length = k + 1 - start;
    const ends = sentences[t] !== sentences[t + 1];
    if (k + 1 < spans.length && length < MOST && !(length >= LEAST && ends)) return;
    const part = spans.slice(start, k + 1).map((span, n) => (start && !n ? { ...span, between: "" } : span));
    blocks.push({ from: part[0]?.t ?? 0, to: t + 1, spans: part, tail: spans[k + 1]?.between ?? "" });
    start = k + 1;
  });
  return blocks;
}

// About where a token of a block without elements would be: `share` of the block is before it.
export function placeIn({ left, right, top, bottom }: Box, share: number, lineHeight: number): Box {
  const lines = Math.max(1, Math.round((bottom - top) / lineHeight));
  const line = Math.min(lines - 1, Math.floor(share * lines));
  const x = left + (right - left) * (share * lines - line);
  const y = top + ((bottom - top) * line) / lines;
  return { left: x, right: x, top: y, bottom: y + (bottom - top) / lines };
}
