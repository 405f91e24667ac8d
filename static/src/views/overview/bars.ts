// The colour bars that explain the overview's thumbnails and figures.
import type { App } from "../../app/app";
import type { State } from "../../app/state";
import { isCross } from "../../app/stacks";
import { lutOf } from "../../maps/colour";
import type { Bar } from "../../maps/colour-bar";
import { FIGURES, type Figure } from "../../heads/figures";
import type { Tick } from "../../maps/scale";
import { NEAR } from "./thumbnails";

const ROOTS: Tick[] = [
  { at: 0, label: "0" },
  { at: 0.5, label: "¼" },
  { at: 1, label: "1" },
];
const SIGNED_ROOTS: Tick[] = [
  { at: 0, label: "−1" },
  { at: 0.25, label: "−¼" },
  { at: 0.5, label: "0" },
  { at: 0.75, label: "¼" },
  { at: 1, label: "1" },
];

// show: the maps that have a bar. range: of the figure, where there is one. pool: tokens along a block of pooled maps;
// 1 for whole ones. bare: maps without the strip of offsets.
export function overviewBars(
  { state, theme }: App,
  show: State["show"],
  figure: Figure | null,
  range: [number, number] | null,
  pool: number,
  bare: boolean,
): Bar[] {
  const { map, center } = state;
  const pooled = pool > 1 ? `; largest of ${pool} × ${pool}` : "";
  const bars: Bar[] = [];
  if (show !== "similarity")
    bars.push({
      lut: lutOf(map, "attention", theme),
      label: "Attention",
      ticks: ROOTS,
      words: `square root, 0 to 1${pooled}${bare || isCross(state) ? "" : `; strip: offsets −${NEAR} to +${NEAR}`}`,
    });
  if (show !== "attention")
    bars.push({
      lut: lutOf(map, "signed", theme),
      label: center ? "Centred similarity" : "Similarity",
      ticks: SIGNED_ROOTS,
      words: `square root, of each head’s largest |S|${pooled}`,
    });
  if (figure && range)
    bars.push({
      lut: lutOf(map, "figure", theme),
      label: FIGURES[figure].name,
      ticks: range.map((v, at) => ({ at, label: FIGURES[figure].write(v) })),
      words: "linear, least to largest",
    });
  return bars;
}
