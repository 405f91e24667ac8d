// Colour maps. Each rises (or falls) evenly in lightness from 0, so it reads without colour vision and in print. Most
// exist for a light and a dark page; low values have the colour of the page.
import type { Theme } from "../app/theme";
import PRINTED from "../../../api/figures/palettes.json"; // of figures to print, which are those of "ink" on a light page

export const MAPS = ["ink", "viridis", "cividis", "grey"] as const;
export type MapName = (typeof MAPS)[number];
// signed: similarity where some of it is below 0
type Quantity = "attention" | "similarity" | "signed" | "difference" | "figure";
type Rgb = [number, number, number];

// 256 colours packed as ImageData wants them, little-endian: 0xAABBGGRR.
export type Lut = Uint32Array;

// From 0 outwards. `below` is for similarity under 0; attention and similarity differ in every palette.
interface Palette {
  attention: string[];
  similarity: string[];
  below: string[];
}
const VIRIDIS: Palette = {
  attention: [
    "#440154",
    "#482878",
    "#3e4a89",
    "#31688e",
    "#26828e",
    "#1f9e89",
    "#35b779",
    "#6dcd59",
    "#b4de2c",
    "#fde725",
  ],
  similarity: ["#1a1020", "#5c1a4a", "#a5315a", "#e05a4a", "#f9a242", "#fcf0a0"],
  below: ["#1a1020", "#1d2f70", "#2f5fb8", "#5f9be0", "#a3d0f5", "#cfe8ff"],
};
const CIVIDIS: Palette = {
  attention: [
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#fee838",
  ],
  similarity: ["#1c1c1c", "#57391d", "#97612a", "#d6913f", "#f5c888", "#ffe6bd"],
  below: ["#1c1c1c", "#2e3a5c", "#55699c", "#8d9fce", "#b9c8ee", "#d5e0ff"],
};
const PALETTES: Record<MapName, Record<Theme, Palette>> = {
  ink: {
    light: PRINTED,
    dark: {
      attention: ["#14181e", "#17365f", "#1f5fa6", "#4a93dd", "#93c4f3", "#e8f3ff"],
      similarity: ["#1a1713", "#4c2a0c", "#8a4a10", "#cc7c26", "#f0b566", "#ffe7bd"],
      below: ["#1a1713", "#3a2560", "#6a479f", "#a887d8", "#dccaff"],
    },
  },
  viridis: { light: VIRIDIS, dark: VIRIDIS },
  cividis: { light: CIVIDIS, dark: CIVIDIS },
  grey: {
    light: {
      attention: ["#ffffff", "#101112"],
      similarity: ["#fffdfa", "#e3cfb4", "#a9825a", "#7d501c", "#4a2800"],
      below: ["#fffdfa", "#c5d3dd", "#7f98ab", "#3a6590", "#0b3a66"],
    },
    dark: {
      attention: ["#101112", "#ffffff"],
      similarity: ["#15110c", "#4d3a24", "#8c6c48", "#d0a572", "#ffdca8"],
      below: ["#15110c", "#22384a", "#4b6a85", "#7fa9d6", "#bcdcff"],
    },
  },
};
const DIFFERENCE: Record<Theme, { above: string[]; below: string[] }> = {
  light: { above: ["#f4f4f2", "#f0bd80", "#cc7722", "#7a3303"], below: ["#f4f4f2", "#9cc3e8", "#2f74c0", "#0a3674"] },
  dark: { above: ["#17181a", "#6e3c0c", "#d0822c", "#fbd29b"], below: ["#17181a", "#1d4a80", "#4a93dd", "#a9d2fb"] },
};
const FIGURE: Record<Theme, string[]> = {
  light: PRINTED.figure,
  dark: ["#24282a", "#1f5450", "#2c8a83", "#6cc4ba", "#d3f5ee"],
};

function parseHex(hex: string): Rgb {
  const n = parseInt(hex.slice(1), 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}

const toLinear = (c: number): number => {
  const v = c / 255;
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
};
const toSrgb = (v: number): number => {
  const c = v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055;
  return Math.round(Math.min(1, Math.max(0, c)) * 255);
};

// OKLab (Ottosson 2020): mixing in it keeps lightness even.
export function toOklab([r8, g8, b8]: Rgb): Rgb {
  const r = toLinear(r8),
    g = toLinear(g8),
    b = toLinear(b8);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([L, a, b]: Rgb): Rgb {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    toSrgb(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    toSrgb(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    toSrgb(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

// Through the anchors with even steps of lightness, which must rise or fall from the first to the last.
function ramp(anchors: readonly string[], steps: number): Rgb[] {
  const labs = anchors.map((hex) => toOklab(parseHex(hex)));
  const [first, last] = [labs[0]![0], labs.at(-1)![0]];
  const done = labs.map(([L]) => (L - first) / (last - first));
  return Array.from({ length: steps }, (_, n) => {
    const at = n / (steps - 1);
    const low = Math.max(0, Math.min(labs.length - 2, done.findIndex((d) => d >= at) - 1));
    const mix = (at - done[low]!) / (done[low + 1]! - done[low]!);
    const [p, q] = [labs[low]!, labs[low + 1]!];
    return fromOklab([0, 1, 2].map((k) => p[k]! + (q[k]! - p[k]!) * mix) as Rgb);
  });
}

// The anchors from 0 upwards, and from 0 downwards where the quantity goes there.
function anchorsOf(map: MapName, quantity: Quantity, theme: Theme): { above: string[]; below?: string[] } {
  if (quantity === "figure") return { above: FIGURE[theme] };
  if (quantity === "difference") return DIFFERENCE[theme];
  const { attention, similarity, below } = PALETTES[map][theme];
  if (quantity === "signed") return { above: similarity, below };
  return { above: quantity === "attention" ? attention : similarity };
}

export const MIDDLE = 128; // the index of 0 in a colour map with two sides

const luts = new Map<string, Lut>();
export function lutOf(map: MapName, quantity: Quantity, theme: Theme): Lut {
  const key = `${map} ${quantity} ${theme}`;
  let lut = luts.get(key);
  if (!lut) {
    const { above, below } = anchorsOf(map, quantity, theme);
    lut = Uint32Array.from(
      below ? [...ramp(below, MIDDLE + 1).reverse(), ...ramp(above, 256 - MIDDLE).slice(1)] : ramp(above, 256),
      ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0,
    );
    luts.set(key, lut);
  }
  return lut;
}

// A map's colours by their indices, a pixel each.
export function imageOf(indices: Uint8Array, width: number, lut: Lut): ImageData {
  const image = new ImageData(width, indices.length / width);
  const rgba = new Uint32Array(image.data.buffer);
  for (let k = 0; k < rgba.length; k++) rgba[k] = lut[indices[k]!]!;
  return image;
}

export function cssOf(lut: Lut, at: number): string {
  const c = lut[Math.round(Math.min(1, Math.max(0, at)) * 255)]!;
  return `rgb(${c & 255} ${(c >> 8) & 255} ${(c >> 16) & 255})`;
}

// The style of a cell, with text that reads on it.
export const tinted = (lut: Lut, at: number): { background: string; color: string } => ({
  background: cssOf(lut, at),
  color: inkOn(lut, at),
});

// Black or white, whichever reads better on the colour (WCAG relative luminance).
export function inkOn(lut: Lut, at: number): string {
  const c = lut[Math.round(Math.min(1, Math.max(0, at)) * 255)]!;
  return luminance([c & 255, (c >> 8) & 255, (c >> 16) & 255]) > 0.179 ? "#000000" : "#ffffff";
}

export function luminance([r, g, b]: Rgb): number {
  return 0.2126 * toLinear(r) + 0.7152 * toLinear(g) + 0.0722 * toLinear(b);
}

export const HUES = 8; // that people distinguish as backgrounds of text

// The colour of the n-th token value (Fig. 9). Neighbouring hues differ in lightness, too.
export const hueOf = (n: number, theme: Theme): string => hueAt(n * (360 / HUES) + 25, theme, n % 2 === 1);

// A hue of OKLCH in degrees, pale or dim enough for text on it.
function hueAt(degrees: number, theme: Theme, strong = false): string {
  const angle = (degrees * Math.PI) / 180;
  const [L, C] = theme === "light" ? [strong ? 0.76 : 0.89, 0.1] : [strong ? 0.48 : 0.36, 0.1];
  const [r, g, b] = fromOklab([L, C * Math.cos(angle), C * Math.sin(angle)]);
  return `rgb(${r} ${g} ${b})`;
}
