// The card beside the grid: the head under the pointer, or the one that has the focus, or the chosen one. Both maps with
// their tokens, its name, its pattern, and in words what it does in this text.
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Answer } from "../../app/answer";
import { hasSimilarities } from "../../app/sources";
import type { State } from "../../app/state";
import { patternsOf, type Known } from "../../heads/figures";
import type { Place } from "../../heads/order";
import { AT_ONCE_MOST, headsOf } from "../../heads/heads";
import { blockOf, extentOf, smallMapsOf } from "../../heads/pooled";
import type { Axis, Head } from "../../maps/analysis";
import { axisOf } from "../../maps/axis";
import { imageOf } from "../../maps/colour";
import { ColourBar } from "../../maps/colour-bar";
import { strongest } from "../../maps/heatmap";
import { shadeOf, shadeOfBytes, type Shade } from "../../maps/shade";
import { pool } from "../../maps/thumbnail";
import { useApp } from "../../ui/context";
import { Button } from "../../ui/controls";
import { useResize } from "../../ui/resize";
import { overviewBars } from "./bars";
import { attentionInWords, similarityInWords } from "./in-words";

const PIXELS = 480; // of a crowded map's side, at most
const LABELLED_MOST = 32; // tokens that have names on an axis
const REST_MS = 150; // that the pointer stays at a head of a longer one before
const RESTING_MOST = 512; // tokens of a text whose chosen head is shown unasked: two maps of longer ones take long

interface Sized extends Shade {
  n: number; // rows
  m: number; // columns
}

function Picture({
  shade,
  side,
  place,
}: {
  shade: Sized;
  side: number;
  place?: { current: HTMLCanvasElement | null };
}) {
  const own = useRef<HTMLCanvasElement>(null);
  const canvas = place ?? own;
  useLayoutEffect(() => {
    const { n, m } = shade;
    if (!canvas.current || !n || !m) return;
    const most = Math.max(n, m);
    const cells = { ...shade, unit: [most / n, most / m] } as const;
    const crowded = most > side;
    const indices = crowded ? strongest(cells, { x: 0, y: 0, span: most }, side) : shade.indices;
    const [width, height] = crowded ? [side, side] : [m, n];
    if (canvas.current.width !== width) canvas.current.width = width; // even the same width makes another bitmap
    if (canvas.current.height !== height) canvas.current.height = height;
    canvas.current.getContext("2d")?.putImageData(imageOf(indices, width, shade.lut), 0, 0);
  }, [shade, side]);
  return <canvas ref={canvas} />;
}

export const canRest = ({ encoding }: Answer): boolean => encoding.ids.length <= RESTING_MOST;

// Names of tokens along a map; nothing for many.
function Names({ axis, side }: { axis: Axis | undefined; side: "rows" | "columns" }) {
  if (!axis || axis.n > LABELLED_MOST) return null;
  return (
    <div class={`names ${side}`} aria-hidden="true" style={{ "--n": axis.n }}>
      {axis.labels.map((label, k) => (
        <span key={k}>{label}</span>
      ))}
    </div>
  );
}

// Returns the axes of a text that is short enough for names along its maps; else null.
function axesOf({ encoding, source, pooled }: Answer, lens: Pick<State, "special" | "words">) {
  if (pooled || Math.min(encoding.ids.length, source?.ids.length ?? Infinity) > LABELLED_MOST) return null;
  const axis = axisOf(encoding, lens);
  return { axis, columns: source ? axisOf(source, lens) : axis };
}

function shadesOfHead(answer: Answer, head: Head, colours: Omit<Parameters<typeof shadeOf>[3], "scale">) {
  const paints = { ...colours, scale: "root" } as const;
  const { n } = head.axis;
  return {
    attention: { ...shadeOf(head.attention, n, "attention", paints), n, m: head.columns.n },
    similarity: answer.headOutputs && { ...shadeOf(head.similarity, n, "similarity", paints), n, m: n },
  };
}

// False from the moment that another head is shown until it has been for REST_MS.
function useRest(head: string): boolean {
  const [rested, setRested] = useState(head);
  useEffect(() => {
    const timer = setTimeout(() => setRested(head), REST_MS);
    return () => clearTimeout(timer);
  }, [head]);
  return rested === head;
}

interface Props {
  answer: Answer;
  at: Place;
  known: Known | undefined;
}

export function HeadCard({ answer, at, known }: Props) {
  const app = useApp();
  const { state, theme } = app;
  const heads = headsOf(app);
  const small = smallMapsOf(answer);
  const rows = small ? small.side : answer.encoding.ids.length;
  const attention = small ? small.attention(at.l)[at.h] : heads.attention(answer, at.l)?.[at.h];
  const similarity = small
    ? small.similarity(at.l)[at.h]
    : heads.deriver.of(answer).similarity[at.l * answer.heads.length + at.h];
  const rests = useRest(`${at.l}.${at.h}`);
  const picture = useRef<HTMLCanvasElement>(null);
  const [side, setSide] = useState(PIXELS);
  const [, redraw] = useReducer<number, void>((n) => n + 1, 0);
  // The words and merged pieces need the head's numbers, and a fine picture each of its cells. Those of a long text are
  // made by the worker once the pointer rests. Until then the card has the copies that the thumbnails are made of.
  const selection = { layer: at.l, head: at.h };
  const long = rows > AT_ONCE_MOST && !small;
  const made = long && rests ? heads.madeHead(answer, selection, side, redraw) : null;
  const head = long ? (made?.head ?? null) : heads.roughHead(answer, selection);
  const copies = made ?? (long ? heads.deriver.copiesOf(answer, at.l, at.h, state.special) : null);
  const shades = useMemo(() => {
    const paints = { map: state.map, theme };
    if (state.words && head) return shadesOfHead(answer, head, paints);
    const { tokens, columns } = extentOf(answer, state.special);
    if (!attention) return null;
    // As many cells as the picture has pixels: pooled while they are bytes, which costs a tenth.
    const shown = copies?.attention ?? pool(attention, rows, side, tokens, false, columns);
    const alike = copies?.similarity ?? (similarity && pool(similarity, rows, side, tokens));
    return {
      attention: { ...shadeOfBytes(shown.values, "attention", paints), n: shown.side, m: shown.across },
      similarity: alike && { ...shadeOfBytes(alike.values, "similarity", paints), n: alike.side, m: alike.across },
    };
  }, [
    answer,
    head && state.words,
    copies?.attention,
    copies?.similarity,
    attention,
    similarity,
    side,
    state.special,
    state.words,
    state.map,
    theme,
  ]);
  const axes = useMemo(() => axesOf(answer, state), [answer, state.special, state.words]);
  const words = useMemo(
    () =>
      head && {
        attention: attentionInWords(known, head),
        similarity: answer.headOutputs && similarityInWords(head, state.map === "ink"),
      },
    [answer, head, known, state.map],
  );
  useResize(picture, ({ width }) => setSide(Math.min(PIXELS, Math.max(1, Math.round(width * devicePixelRatio)))), [
    !shades,
  ]);
  if (!shades) return null;
  const shown = hasSimilarities(state) ? "both" : "attention";
  const [blue, amber] = overviewBars(app, shown, null, null, blockOf(answer), true);
  return (
    <section class="head-card" aria-label="Enlarged head">
      <h2>
        <span>{`Layer ${at.l} · Head ${at.h}`}</span> <small class="muted">{known && patternsOf(known)}</small>
      </h2>
      <div class="pair">
        <figure>
          <Names axis={axes?.columns} side="columns" />
          <Names axis={axes?.axis} side="rows" />
          <Picture shade={shades.attention} side={side} place={picture} />
          {blue && <ColourBar {...blue} />}
        </figure>
        {shades.similarity && amber && (
          <figure>
            <Names axis={axes?.axis} side="columns" />
            <Picture shade={shades.similarity} side={side} />
            <ColourBar {...amber} />
          </figure>
        )}
      </div>
      {!small && (
        <p class="in-words">{words && [<strong key="attention">{words.attention}</strong>, " ", words.similarity]}</p>
      )}
      <p class="actions">
        <Button onClick={() => app.open(at.l, at.h)}>Open this head</Button>
        <span class="muted">or point at another one</span>
      </p>
    </section>
  );
}
