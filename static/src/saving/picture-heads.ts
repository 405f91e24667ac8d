// A map of layers by heads for paper, below the picture of the view that it stands under.
import type { Exportable } from "./export";
import type { HeadNumbers } from "../heads/head-map";
import { cssOf, inkOn } from "../maps/colour";
import { LISTED, rankHeads } from "../heads/between";
import { drawBars, EDGE, moved, type Ink, type Picture, type Surface } from "./surface";

const CELL = { width: 46, height: 22 };
const SIDE = 34; // left of the cells: the layer
const TOP = 98; // above them: caption, bar, heads
const LIST = 190;

// Adds the numbers of all heads to a saved view, as the page shows them below it.
export function withHeads(made: Exportable, heads: HeadNumbers | null): Exportable {
  return heads ? { ...made, heads, picture: made.picture && below(made.picture, picture(heads)) } : made;
}

function picture(content: HeadNumbers): Picture {
  const { values, bar, caption } = content;
  const across = values[0]?.length ?? 0;
  return {
    width: 2 * EDGE + Math.max(SIDE + across * CELL.width + LIST, 6 * caption.length),
    height: TOP + Math.max(values.length, LISTED) * CELL.height + EDGE,
    draw: (surface, ink) => {
      surface.text(caption, EDGE, 8, { size: 10, colour: ink.muted });
      drawBars(surface, [bar], EDGE, 30, ink);
      drawCells(surface, content, ink);
      drawList(surface, content, EDGE + SIDE + across * CELL.width + 24, ink);
    },
  };
}

function drawCells(surface: Surface, { values, place, bar, write }: HeadNumbers, ink: Ink): void {
  const { width, height } = CELL;
  const middle = (k: number): number => EDGE + SIDE + (k + 0.5) * width;
  values[0]?.forEach((_, k) =>
    surface.text(`H${k}`, middle(k), TOP - 10, { size: 9, colour: ink.muted, anchor: "middle" }),
  );
  values.forEach((row, l) => {
    const y = TOP + l * height;
    surface.text(`L${l}`, EDGE, y + height / 2, { size: 9, colour: ink.muted });
    row.forEach((value, k) => {
      const at = value === null ? null : place(value);
      if (at !== null) surface.rect(middle(k) - width / 2 + 1, y + 1, width - 2, height - 2, cssOf(bar.lut, at), null);
      surface.text(value === null ? "–" : write(value), middle(k), y + height / 2, {
        size: 9,
        colour: at === null ? ink.muted : inkOn(bar.lut, at),
        anchor: "middle",
      });
    });
  });
}

function drawList(surface: Surface, { values, write }: HeadNumbers, x: number, ink: Ink): void {
  rankHeads(values)
    .slice(0, LISTED)
    .forEach(({ l, h, value }, n) => {
      const y = TOP + (n + 0.5) * CELL.height;
      surface.text(`${n + 1}. Layer ${l} head ${h}`, x, y, { size: 10, colour: ink.ink });
      surface.text(write(value), x + LIST - 24, y, { size: 10, colour: ink.ink, anchor: "end" });
    });
}

const below = (first: Picture, second: Picture): Picture => ({
  width: Math.max(first.width, second.width),
  height: first.height + second.height,
  draw: (surface, ink) => {
    surface.rect(0, 0, Math.max(first.width, second.width), first.height + second.height, ink.page, null);
    first.draw(surface, ink);
    second.draw(shifted(surface, first.height), ink);
  },
});

const shifted = (surface: Surface, dy: number): Surface => ({
  image: (pixels, x, y, width, height) => surface.image(pixels, x, y + dy, width, height),
  text: (text, x, y, style) => surface.text(text, x, y + dy, style),
  rect: (x, y, width, height, fill, stroke, opacity) => surface.rect(x, y + dy, width, height, fill, stroke, opacity),
  path: (d, stroke, width, opacity) => surface.path(moved(d, 0, dy), stroke, width, opacity),
});
