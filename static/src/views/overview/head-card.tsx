// The card beside the grid: the head under the pointer, or the one that has the focus, or the chosen one. Both maps with
// their tokens, its name, its pattern, and in words what it does in this text.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Answer } from "../../app/answer";
import { hasSimilarities } from "../../app/sources";
import { patternHere, patternName, type Known } from "../../heads/figures";
import type { Place } from "../../heads/order";
import { headsOf } from "../../heads/heads";
import { blockOf, smallMapsOf } from "../../heads/pooled";
import type { Axis } from "../../maps/analysis";
import { imageOf } from "../../maps/colour";
import { ColourBar } from "../../maps/colour-bar";
import { strongest } from "../../maps/heatmap";
import { shadeOf, type Shade } from "../../maps/shade";
import { useApp } from "../../ui/context";
import { Button } from "../../ui/controls";
import { overviewBars } from "./bars";
import { attentionInWords, similarityInWords } from "./in-words";

const PIXELS = 480; // of a crowded map's side
const LABELLED_MOST = 32; // tokens that have names on an axis
const RESTING_MOST = 512; // tokens of a text whose chosen head is shown unasked: two maps of longer ones take long

function Picture({ shade, n, m }: { shade: Shade; n: number; m: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (!canvas.current || !n || !m) return;
    const [most, side] = [Math.max(n, m), PIXELS];
    const crowded = most > side;
    const cells = { ...shade, n, m, unit: [most / n, most / m] } as const;
    const indices = crowded ? strongest(cells, { x: 0, y: 0, span: most }, side) : shade.indices;
    canvas.current.width = crowded ? side : m;
    canvas.current.height = crowded ? side : n;
    canvas.current.getContext("2d")?.putImageData(imageOf(indices, crowded ? side : m, shade.lut), 0, 0);
  }, [shade, n, m]);
  return <canvas ref={canvas} />;
}

export const canRest = ({ encoding }: Answer): boolean => encoding.ids.length <= RESTING_MOST;

// The pattern, and that in this text if it is another one.
function patternsOf(known: Known): string {
  const [sample, here] = [patternName(known), patternHere(known)];
  return here && sample && here !== sample ? `${sample} · in this text ${here}` : sample;
}

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

interface Props {
  answer: Answer;
  at: Place;
  known: Known | undefined;
}

// Keyed by the head: one of another head is another card.
export function HeadCard({ answer, at, known }: Props) {
  const app = useApp();
  const { state, theme } = app;
  const head = headsOf(app).roughHead(answer, { layer: at.l, head: at.h });
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
      };
    }
    if (!head) return null;
    return {
      n: head.axis.n,
      m: head.columns.n,
      attention: shadeOf(head.attention, head.axis.n, "attention", paints),
      similarity: answer.headOutputs && shadeOf(head.similarity, head.axis.n, "similarity", paints),
    };
  }, [answer, head, state.map, theme]);
  const words = useMemo(
    () =>
      head && {
        attention: attentionInWords(known, head),
        similarity: answer.headOutputs && similarityInWords(head, state.map === "ink"),
      },
    [answer, head, known, state.map],
  );
  if (!shades) return null;
  const { n, m } = shades;
  const shown = hasSimilarities(state) ? "both" : "attention";
  const [blue, amber] = overviewBars(app, shown, null, null, blockOf(answer), true);
  return (
    <section class="head-card" aria-label="Enlarged head">
      <h2>
        <span>{`Layer ${at.l} · Head ${at.h}`}</span> <small class="muted">{known && patternsOf(known)}</small>
      </h2>
      <div class="pair">
        <figure>
          <Names axis={head?.columns} side="columns" />
          <Names axis={head?.axis} side="rows" />
          <Picture shade={shades.attention} n={n} m={m} />
          {blue && <ColourBar {...blue} />}
        </figure>
        {shades.similarity && amber && (
          <figure>
            <Names axis={head?.axis} side="columns" />
            <Picture shade={shades.similarity} n={n} m={n} />
            <ColourBar {...amber} />
          </figure>
        )}
      </div>
      {words && (
        <p>
          <strong>{words.attention}</strong> {words.similarity}
        </p>
      )}
      <p class="actions">
        <Button onClick={() => app.open(at.l, at.h)}>Open this head</Button>
        <span class="muted">or point at another one</span>
      </p>
    </section>
  );
}
