// Chooses a layer and one of its heads (or their sum), with the layer's heads as small pictures.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isTooLong, type Answer } from "../app/answer";
import type { App } from "../app/app";
import { scrollTo } from "../app/dom";
import { lutOf } from "../maps/colour";
import { paint, pool } from "../maps/thumbnail";
import { moveFocus } from "../ui/arrows";
import { useApp } from "../ui/context";
import { Button, Select } from "../ui/controls";
import { patternName } from "./figures";
import { SUM, type Selection } from "../app/selection";
import { headsOf } from "./heads";
import { extentOf, smallMapsOf } from "./pooled";

type Quantity = "attention" | "similarity";
type Maps = readonly (Uint8Array | Int8Array | undefined)[];

const SIDE = 34; // CSS px of one picture

function mapsOf(app: App, answer: Answer, layer: number, quantity: Quantity): Maps {
  const small = smallMapsOf(answer);
  if (small) return small[quantity](layer);
  if (quantity === "attention") return headsOf(app).attention(answer, layer) ?? [];
  const H = answer.heads.length;
  return headsOf(app)
    .derived(answer, [layer])
    .similarity.slice(layer * H, (layer + 1) * H);
}

// By default of the page's text and for its head.
export function HeadPicker(props: {
  label?: string;
  answer?: Answer | null;
  selection: Selection;
  quantities: readonly Quantity[]; // one picture below the other
  onPick?: (layer: number, head: number) => void;
  play?: boolean; // through the layers, one after the other
}) {
  const app = useApp();
  const { label = "Layer", answer = app.overview().answer, selection, quantities } = props;
  const { onPick = app.pick } = props;
  const { layer } = selection;
  const chosen = useRef(selection); // a second choice may come before the first one is drawn
  chosen.current = selection;
  const choose = (choice: Partial<Selection>): void => {
    chosen.current = { ...chosen.current, ...choice };
    onPick(chosen.current.layer, chosen.current.head);
  };
  const shown = useRef(answer); // the last one stays while the next is computed
  shown.current = answer ?? shown.current;
  const strip = useRef<HTMLDivElement>(null);
  const { theme, state } = app;
  const maps = answer ? quantities.map((quantity) => mapsOf(app, answer, layer, quantity)) : [];
  const made = maps.map((of) => of.filter(Boolean).length).join(" ");
  useLayoutEffect(() => {
    if (!answer) return;
    strip.current?.querySelectorAll("canvas").forEach((canvas, head) => {
      const heads = maps.map((of) => of[head]);
      paintHead(app, answer, canvas, quantities, heads);
    });
  }, [answer, layer, theme, state.map, state.special, quantities.join(" "), made]);
  useLayoutEffect(() => {
    const button = strip.current?.querySelector('[aria-pressed="true"]');
    if (strip.current && button) scrollTo(strip.current, button);
  }, [layer, selection.head, answer === null]);

  const known = answer ? headsOf(app).figures(answer)[layer] : undefined;
  const step = (e: KeyboardEvent): void => {
    if (e.key.startsWith("Arrow")) moveFocus(e, [...(strip.current?.querySelectorAll("button") ?? [])])?.click();
  };
  return (
    <div class="head-picker">
      <Select
        label={label}
        value={layer}
        options={(shown.current?.layers ?? []).map((l) => [l, `Layer ${l}`] as const)}
        onChange={(next) => choose({ layer: next })}
      />
      {props.play && answer && <Play layer={layer} layers={answer.layers.length} />}
      <div class="strip-heads" role="group" aria-label="Head" ref={strip} onKeyDown={step}>
        {shown.current &&
          [...shown.current.heads, ...(isTooLong(shown.current) ? [] : [SUM])].map((head) => {
            const pattern = known?.[head] && patternName(known[head]);
            const sum = head === SUM;
            const title = sum ? "All heads of the layer summed (paper, Fig. 12)" : `Head ${head}`;
            return (
              <Button
                key={head}
                aria-label={sum ? undefined : `Head ${head}`}
                title={pattern ? `${title}: ${pattern}` : title}
                aria-pressed={head === selection.head}
                tabIndex={head === selection.head ? 0 : -1}
                onClick={() => choose({ head })}
              >
                {sum ? (
                  <span class="sum" aria-hidden="true">
                    Σ
                  </span>
                ) : (
                  <canvas aria-hidden="true" />
                )}
                <small>{sum ? "sum" : head}</small>
              </Button>
            );
          })}
      </div>
    </div>
  );
}

const PLAY_MS = 900; // a layer

// Shows the head of each layer in turn, from the first if the last is shown.
function Play({ layer, layers }: { layer: number; layers: number }) {
  const app = useApp();
  const [playing, setPlaying] = useState(false);
  const ends = layer + 1 >= layers;
  const show = (next: number): void =>
    app.set({ layer: next, head: app.selection(app.overview().answer).head }, "merge");
  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => (ends ? setPlaying(false) : show(layer + 1)), PLAY_MS);
    return () => clearTimeout(timer);
  }, [playing, layer]);
  const name = playing ? "Stop" : "Play the layers";
  return (
    <Button
      class="icon play"
      aria-label={name}
      title={`${name} (keys { and } go layer by layer)`}
      onClick={() => {
        if (!playing && ends) show(0);
        setPlaying(!playing);
      }}
    >
      {playing ? "■" : "▶"}
    </Button>
  );
}

// A head's pictures, one below the other.
function paintHead(
  app: App,
  answer: Answer,
  canvas: HTMLCanvasElement,
  quantities: readonly Quantity[],
  maps: Maps,
): void {
  const { state, theme } = app;
  const { T, tokens: shown, columns } = extentOf(answer, state.special);
  const { causal } = answer.encoding;
  const size = Math.min(Math.max(shown.length, columns.length), Math.round(SIDE * devicePixelRatio));
  canvas.width = size;
  canvas.height = size * quantities.length;
  canvas.style.height = `${SIDE * quantities.length}px`;
  quantities.forEach((quantity, n) => {
    const map = maps[n];
    if (!map || !size) return;
    const ofAttention = quantity === "attention";
    const lut = lutOf(state.map, ofAttention ? "attention" : "signed", theme);
    const small = pool(map, T, size, shown, causal && ofAttention, ofAttention ? columns : shown);
    canvas.getContext("2d")?.putImageData(paint(small, lut, size), 0, n * size);
  });
}
