// The report's maps: coloured over the range that is chosen, and read under the pointer.
import type { Atlas, Data } from "./data";

const drawn = new WeakMap<SVGImageElement, string>();
const number = (v: number): string => (Math.abs(v) >= 1000 ? v.toFixed(0) : String(+v.toPrecision(3)));

// 256 colours between the stops of the map's own colour bar.
function coloursOf(picture: SVGSVGElement): Uint32Array {
  const stops = [...picture.querySelectorAll("stop")].map((stop) => {
    const n = parseInt(stop.getAttribute("stop-color")!.slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255];
  });
  return Uint32Array.from({ length: 256 }, (_, k) => {
    const at = (k / 255) * (stops.length - 1),
      from = Math.min(stops.length - 2, Math.floor(at));
    const [r, g, b] = stops[from]!.map((v, c) => Math.round(v + (at - from) * (stops[from + 1]![c]! - v)));
    return ((255 << 24) | (b! << 16) | (g! << 8) | r!) >>> 0;
  });
}

// Whose bar has its 0 marked has two sides: as far below as above.
function reachOf(picture: SVGSVGElement, [low, high]: readonly [number, number]): readonly [number, number] {
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return picture.querySelector(".zero") ? [-most, most] : [low, high];
}

function paintOne(image: SVGImageElement, atlas: Atlas, range: number): void {
  const { side, values, ranges } = atlas.plate(image.dataset.map!);
  const picture = image.ownerSVGElement!;
  const [low, high] = reachOf(picture, ranges[range]!);
  const colours = coloursOf(picture);
  const target = document.createElement("canvas");
  target.width = target.height = side;
  const context = target.getContext("2d")!;
  const data = context.createImageData(side, side);
  const pixels = new Uint32Array(data.data.buffer);
  values.forEach((v, k) => {
    if (!Number.isNaN(v))
      pixels[k] = colours[Math.round(255 * Math.min(1, Math.max(0, (v - low) / (high - low || 1))))]!;
  });
  context.putImageData(data, 0, 0);
  image.setAttribute("href", target.toDataURL());
  for (const [name, value] of [
    ["low", low],
    ["middle", (low + high) / 2],
    ["high", high],
  ] as const)
    picture.querySelector(`[data-range=${name}]`)!.textContent = number(value);
}

// Leaves maps that are already drawn with this range. The page comes with range 1.
export function paint(atlas: Atlas, range: number, among: string): void {
  for (const image of document.querySelectorAll<SVGImageElement>(`${among} image[data-map]`)) {
    const before = drawn.get(image) ?? (image.hasAttribute("href") ? "1" : "");
    if (before !== String(range)) paintOne(image, atlas, range);
    drawn.set(image, String(range));
  }
}

export function tellUnder(dataOf: (image: Element) => Data, readout: HTMLElement): void {
  document.addEventListener("pointermove", (event) => {
    const image = (event.target as Element).closest<SVGImageElement>("image[data-map]");
    if (!image) return;
    const { report, atlas } = dataOf(image);
    const { side, values } = atlas.plate(image.dataset.map!);
    const box = image.getBoundingClientRect();
    const place = (at: number, length: number): number =>
      Math.min(side - 1, Math.max(0, Math.floor((at / length) * side)));
    const i = place(event.clientY - box.top, box.height),
      j = place(event.clientX - box.left, box.width);
    const wide = Math.ceil(report.provenance.options.max_tokens / side);
    readout.textContent =
      `${image.ownerSVGElement!.getAttribute("aria-label")!}: row ${i * wide}, column ${j * wide}: ` +
      (Number.isNaN(values[i * side + j]) ? "no text reaches it" : number(values[i * side + j]!));
  });
}
