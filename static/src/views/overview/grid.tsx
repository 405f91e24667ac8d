// The heads as a grid of thumbnails with their figures. One stop for the Tab key, arrows within.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Known } from "../../heads/figures";
import { FIGURES, patternName, placeIn, soundValueOf, writeFigure, type Figure } from "../../heads/figures";
import type { Nearness, Place } from "../../heads/order";
import { lutOf, tinted } from "../../maps/colour";
import { format } from "../../maps/scale";
import { storyOf } from "../../story/story";
import { moveFocus } from "../../ui/arrows";
import { notedIn } from "../../app/stacks";
import { classes } from "../../ui/classes";
import { useApp } from "../../ui/context";
import { Adopt } from "../../ui/controls";
import type { Thumb } from "./thumbnails";

const FILTERED = 24; // heads at most that are shown larger, in fewer columns
const FEW = 5; // heads a layer: large layers are then side by side, one header fits none of them, and each head has its name

export interface Captions {
  summary: Known[][] | null; // null: not here yet
  near: Nearness | null;
  figure: Figure | null;
  range: [number, number] | null; // of the figure
}

interface Caption {
  written: string;
  kind: string; // of the number written, for screen readers
  sound: boolean;
  place: number | null; // 0..1 of the colour bar
}

function captionOf({ l, h }: Thumb, heads: number, { summary, near, figure, range }: Captions, least: number): Caption {
  const head = summary?.[l]?.[h];
  const distance = near?.get(l * heads + h);
  if (!head) return { written: "", kind: "", sound: true, place: null };
  const value = figure ? soundValueOf(head, figure, least) : null;
  const [written, kind] =
    distance !== undefined
      ? [`at ${format(distance)}`, ": distance"]
      : figure
        ? [writeFigure(head, figure), `: ${FIGURES[figure].name}`]
        : ["", ""];
  const sound = value !== null || !figure;
  const place = range && value !== null ? placeIn(range, value) : null;
  return { written: written || patternName(head), kind, sound, place };
}

export function Grid(props: {
  order: readonly Thumb[];
  heads: number; // a layer
  sorted: boolean;
  captions: Captions;
  chosen: { layer: number; head: number };
  early: boolean; // frames without maps, while the server computes
  place: { current: HTMLDivElement | null };
  point: (at: Place | null, aloud: boolean) => void; // at a head
}) {
  const app = useApp();
  const { order, heads, sorted, captions, chosen, place } = props;
  const { show, least, map } = app.state;
  // A few heads that a filter leaves are larger.
  const few = sorted && order.length <= FILTERED;
  const small = app.state.small && !few;
  const headed = !sorted && (small || heads > FEW);
  const columns = few ? Math.min(heads, 6) : heads;
  const focused = useRef<string | undefined>(undefined);
  const active = document.activeElement;
  focused.current = active instanceof HTMLElement && place.current?.contains(active) ? active.dataset.head : undefined;
  // A thumbnail that moves to another row is made again.
  useLayoutEffect(() => {
    if (focused.current && !place.current?.contains(document.activeElement))
      place.current?.querySelector<HTMLElement>(`[data-head="${focused.current}"]`)?.focus();
  });
  const keyOf = ({ l, h }: Thumb): string => `${l}.${h}`;
  const chosenThumb = order.find(({ l, h }) => l === chosen.layer && h === chosen.head);
  const stop = focused.current ?? (order[0] && keyOf(chosenThumb ?? order[0]));
  const lut = lutOf(map, "figure", app.theme);

  const { model } = notedIn(app.state, app.modelName());
  const noted = new Set(
    storyOf(app).story.notes.flatMap((note) => (note.model === model ? [`${note.layer}.${note.head}`] : [])),
  );
  const cell = (t: Thumb) => {
    const { written, kind, sound, place: at } = captionOf(t, heads, captions, least);
    const name = headed ? "" : `${t.l}·${t.h}`;
    const label = [name, written].filter(Boolean).join(" ");
    return (
      <div role="gridcell" aria-selected={t === chosenThumb} key={keyOf(t)}>
        <button
          type="button"
          class={classes("thumb", t === chosenThumb && "chosen")}
          data-head={keyOf(t)}
          tabIndex={keyOf(t) === stop ? 0 : -1}
          aria-label={`${label}${label ? ", layer" : "Layer"} ${t.l}, head ${t.h}${kind}${noted.has(keyOf(t)) ? ", with a note" : ""}`}
          onClick={() => app.open(t.l, t.h)}
          onFocus={() => props.point(t, true)}
          onBlur={() => props.point(null, false)}
          onPointerEnter={() => props.point(t, false)}
        >
          <Adopt element={t.canvas} />
          {noted.has(keyOf(t)) && <i class="noted" title="Has a note" />}
          <span class="figure" style={at === null ? {} : tinted(lut, at)}>
            {name && <b>{name}</b>}
            {name && " "}
            {written && <span class={sound ? "" : "few"}>{written}</span>}
          </span>
        </button>
      </div>
    );
  };
  const row = (r: number) => {
    const [from, to] = [r * columns, Math.min(order.length, (r + 1) * columns)];
    return (
      <div class="row" role="row" key={r}>
        <div class="side" role="rowheader">
          {sorted ? `${from + 1}–${to}` : `L${r}`}
        </div>
        {order.slice(from, to).map(cell)}
      </div>
    );
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    if (e.key === "Escape") return props.point(null, false);
    const buttons = [...(place.current?.querySelectorAll<HTMLButtonElement>(".thumb") ?? [])];
    moveFocus(e, buttons, columns);
  };
  return (
    <div
      class={classes(
        "grid",
        small && "small",
        sorted && "sorted",
        captions.figure && "annotated",
        props.early && "early",
      )}
      role="grid"
      aria-label="Heads: layers by heads"
      data-show={show}
      style={{ "--heads": columns, "--rows": Math.ceil(order.length / columns) }}
      ref={place}
      onKeyDown={onKeyDown}
      onPointerLeave={() => props.point(null, false)}
    >
      {headed && (
        <div class="row header" role="row">
          <div class="side" role="columnheader">
            <span class="hidden">Layer</span>
          </div>
          {Array.from({ length: heads }, (_, head) => (
            <div role="columnheader" key={head}>
              H{head}
            </div>
          ))}
        </div>
      )}
      {Array.from({ length: Math.ceil(order.length / columns) }, (_, r) => row(r))}
    </div>
  );
}
