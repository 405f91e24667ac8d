// The head under the pointer, or the one that has the focus, enlarged beside it: both maps, its name, its pattern and
// its strongest tokens. Without one the chosen head stands beside the grid, where there is space. For eyes alone: the line
// at the foot of the page says it aloud.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Answer } from "../../app/answer";
import { patternHere, patternName, type Known } from "../../heads/figures";
import type { Place } from "../../heads/order";
import { headsOf } from "../../heads/heads";
import { smallMapsOf } from "../../heads/pooled";
import { roughHeadOf } from "../../maps/axis";
import type { Head } from "../../maps/analysis";
import { imageOf } from "../../maps/colour";
import { strongest } from "../../maps/heatmap";
import { percent } from "../../maps/scale";
import { shadeOf, type Shade } from "../../maps/shade";
import { useApp } from "../../ui/context";

export interface Pointed extends Place {
  box: Pick<DOMRect, "left" | "right" | "top">; // of its thumbnail
}

const SIDE = 168; // CSS px of a map
const WIDE = 2 * SIDE + 36;
const HIGH = SIDE + 100;
const GAP = 10;
const NAMED = 4; // tokens
const RESTING_MOST = 512; // tokens of a text whose chosen head stands beside the grid: two maps of longer ones take long

// The tokens that receive most attention, with their fraction of it. Equal tokens count together.
function strongestTokens({ attention, axis, columns }: Head): [string, number][] {
  const sums = new Map<string, number>();
  attention.forEach((value, k) => {
    const label = columns.labels[k % columns.n] ?? "";
    sums.set(label, (sums.get(label) ?? 0) + value / axis.n);
  });
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, NAMED);
}

function Picture({ shade, n, m }: { shade: Shade; n: number; m: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (!canvas.current || !n || !m) return;
    const [most, side] = [Math.max(n, m), Math.floor(SIDE * devicePixelRatio)];
    const crowded = most > side;
    const cells = { ...shade, n, m, unit: [most / n, most / m] } as const;
    const indices = crowded ? strongest(cells, { x: 0, y: 0, span: most }, side) : shade.indices;
    canvas.current.width = crowded ? side : m;
    canvas.current.height = crowded ? side : n;
    canvas.current.getContext("2d")?.putImageData(imageOf(indices, crowded ? side : m, shade.lut), 0, 0);
  }, [shade, n, m]);
  return <canvas ref={canvas} />;
}

// Places the card beside the thumbnail, on the side that has space.
function placeOf({ left, right, top }: Pointed["box"]): { left: number; top: number } {
  const beside = right + GAP + WIDE < innerWidth ? right + GAP : Math.max(GAP, left - GAP - WIDE);
  return { left: beside, top: Math.max(GAP, Math.min(top, innerHeight - HIGH - 32)) };
}

// The chosen head, as if the last column of its row were pointed at. Null without space behind the widest row, which is the
// first. Null also in a scrolled page, where what follows the grid may stand there.
export function restingIn(grid: HTMLElement | null): Pointed | null {
  const chosen = grid?.querySelector<HTMLElement>(".thumb.chosen");
  const last = grid?.querySelector(".row:not(.header)")?.lastElementChild;
  const [l = -1, h = -1] = chosen?.dataset.head?.split(".").map(Number) ?? [];
  if (!chosen || !last || scrollY > 0) return null;
  const { left, right } = last.getBoundingClientRect();
  const { top } = chosen.getBoundingClientRect();
  return right + GAP + WIDE < innerWidth ? { l, h, box: { left, right, top } } : null;
}

export const canRest = ({ encoding }: Answer): boolean => encoding.ids.length <= RESTING_MOST;

// The pattern, and that in this text if it is another one.
function patternsOf(known: Known): string {
  const [sample, here] = [patternName(known), patternHere(known)];
  return here && sample && here !== sample ? `${sample} · in this text ${here}` : sample;
}

interface Props {
  answer: Answer;
  at: Pointed;
  resting: boolean; // nobody points at it: it stays behind what lies above the page
  known: Known | undefined;
}

// Keyed by the head: one of another head is another card.
export function Enlarged({ answer, at, resting, known }: Props) {
  const app = useApp();
  const { state, theme } = app;
  const map = headsOf(app).attention(answer, at.l)?.[at.h]; // another view of the same array at each drawing
  const head = useMemo(
    () => (map ? roughHeadOf(answer, map, at.l, at.h, state) : null),
    [!map, answer, state.special, state.words],
  );
  const shades = useMemo(() => {
    const paints = { map: state.map, theme, scale: "root" } as const;
    const small = smallMapsOf(answer);
    if (small) {
      const floats = (map: Uint8Array | Int8Array | undefined, most: number): Float32Array =>
        Float32Array.from(map ?? [], (v) => v / most);
      return {
        n: small.side,
        m: small.side,
        attention: shadeOf(floats(small.attention(at.l)[at.h], 255), small.side, "attention", paints),
        similarity: shadeOf(floats(small.similarity(at.l)[at.h], 127), small.side, "similarity", paints),
        strongest: [],
      };
    }
    if (!head) return null;
    return {
      n: head.axis.n,
      m: head.columns.n,
      attention: shadeOf(head.attention, head.axis.n, "attention", paints),
      similarity: answer.headOutputs && shadeOf(head.similarity, head.axis.n, "similarity", paints),
      strongest: strongestTokens(head),
    };
  }, [answer, head, state.map, theme]);
  if (!shades) return null;
  const { n, m } = shades;
  const { left, top } = placeOf(at.box);
  return (
    <div
      class={`enlarged${resting ? " resting" : ""}`}
      aria-hidden="true"
      style={{ left: `${left}px`, top: `${top}px`, width: `${WIDE}px` }}
    >
      <p>
        <strong>{`Layer ${at.l} · Head ${at.h}`}</strong>
        <span>{known && patternsOf(known)}</span>
      </p>
      <div>
        <Picture shade={shades.attention} n={n} m={m} />
        {shades.similarity && <Picture shade={shades.similarity} n={n} m={n} />}
      </div>
      <p class="muted" hidden={!shades.strongest.length}>
        <span>Looks at {shades.strongest.map(([token, fraction]) => `${token} ${percent(fraction)}`).join(" · ")}</span>
      </p>
    </div>
  );
}
