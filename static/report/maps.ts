// The report's maps: coloured over the range that is chosen, and read under the pointer.
import type { Data } from "./data";
import { setPicture } from "./save";

export const MAP = "image[data-name]";
const drawn = new WeakMap<SVGImageElement, number>();
const number = (v: number): string => (Math.abs(v) >= 1000 ? v.toFixed(0) : String(+v.toPrecision(3)));

const SIGNED = 3; // the palette of maps with values below 0

export const titleOf = (image: SVGImageElement): string => image.ownerSVGElement!.querySelector("title")!.textContent;

// As ImageData wants them, little-endian.
const packed = (colour: string): number => {
  const n = parseInt(colour.slice(1), 16);
  return ((255 << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
};

function paintOne(image: SVGImageElement, { report, atlas }: Data, range: number): void {
  const { side, palette, values, ranges } = atlas.plate(image.dataset.name!);
  const picture = image.ownerSVGElement!;
  const most = Math.max(...ranges[range]!.map(Math.abs)) || 1;
  const [low, high] = palette === SIGNED ? [-most, most] : ranges[range]!;
  const colours = report.palettes[palette]!.map(packed);
  const target = document.createElement("canvas");
  target.width = target.height = side;
  const context = target.getContext("2d")!;
  const data = context.createImageData(side, side);
  const pixels = new Uint32Array(data.data.buffer).fill(0xffffffff);
  values.forEach((v, k) => {
    if (!Number.isNaN(v))
      pixels[k] = colours[Math.round(254 * Math.min(1, Math.max(0, (v - low) / (high - low || 1))))]!;
  });
  context.putImageData(data, 0, 0);
  setPicture(image, target.toDataURL());
  for (const [name, value] of [
    ["low", low],
    ["middle", (low + high) / 2],
    ["high", high],
  ] as const) {
    const shown = picture.querySelector(`[data-name=${name}]`);
    if (shown) shown.textContent = number(value);
  }
}

// Leaves maps that are already drawn with this range.
export function paint(data: Data, range: number, among: string): void {
  for (const image of document.querySelectorAll<SVGImageElement>(`${among} ${MAP}`)) {
    if (drawn.get(image) !== range) paintOne(image, data, range);
    drawn.set(image, range);
  }
}

// The maps that the page comes with are drawn, with range 1.
export function noteDrawn(): void {
  for (const image of document.querySelectorAll<SVGImageElement>(MAP)) drawn.set(image, 1);
}

export function tellUnder(dataOf: (image: Element) => Data, readout: HTMLElement): void {
  document.addEventListener("pointermove", (event) => {
    const image = (event.target as Element).closest<SVGImageElement>(MAP);
    if (!image) return;
    const { side, tokens, values } = dataOf(image).atlas.plate(image.dataset.name!);
    const box = image.getBoundingClientRect();
    const place = (at: number, length: number): number =>
      Math.min(side - 1, Math.max(0, Math.floor((at / length) * side)));
    const i = place(event.clientY - box.top, box.height),
      j = place(event.clientX - box.left, box.width);
    readout.textContent =
      `${titleOf(image)}: row ${i * tokens}, column ${j * tokens}: ` +
      (Number.isNaN(values[i * side + j]) ? "no text reaches it" : number(values[i * side + j]!));
  });
}
