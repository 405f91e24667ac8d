// A figure of several panels as one picture, and on paper.
import { h, svg } from "../src/app/dom";

const ROW = 930; // points of a row of panels
const SHARP = 600; // pixels across a map, so that readers which blur pictures show its cells
const LINK = "http://www.w3.org/1999/xlink";

export const setPicture = (image: SVGImageElement, address: string): void =>
  image.setAttributeNS(LINK, "xlink:href", address);

// Enlarges a picture without blurring it.
async function enlarge(image: SVGImageElement): Promise<void> {
  const small = new Image();
  small.src = image.getAttributeNS(LINK, "href")!;
  await small.decode();
  const times = Math.ceil(SHARP / small.naturalWidth);
  const target = document.createElement("canvas");
  [target.width, target.height] = [times * small.naturalWidth, times * small.naturalHeight];
  const context = target.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, target.width, target.height);
  setPicture(image, target.toDataURL());
}

// A figure's panels as one picture on white, so that it is saved whole. Lengths are in points.
export async function together(figure: Element): Promise<SVGSVGElement> {
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg" });
  let x = 0,
    y = 0,
    right = 0,
    row = 0;
  for (const panel of figure.querySelectorAll<SVGSVGElement>(".panels > svg")) {
    const copy = panel.cloneNode(true) as SVGSVGElement;
    const { width, height } = panel.viewBox.baseVal;
    if (x && x + width > ROW) [x, y, row] = [0, y + row, 0];
    for (const [name, value] of Object.entries({ x, y, width, height })) copy.setAttribute(name, String(value));
    root.append(copy);
    x += width;
    right = Math.max(right, x);
    row = Math.max(row, height);
  }
  const size = { width: `${right}pt`, height: `${y + row}pt`, viewBox: `0 0 ${right} ${y + row}` };
  for (const [name, value] of Object.entries(size)) root.setAttribute(name, value);
  root.prepend(svg("rect", { width: right, height: y + row, fill: "#ffffff" }));
  await Promise.all(Array.from(root.querySelectorAll<SVGImageElement>("image[data-name]"), enlarge));
  return root;
}

let restore = (): void => {}; // the page as it was before the figure that is printed

// Prints the figure alone on a page of its size. Browsers write PDF this way: vectors, fonts and text that can be
// searched. The page is as before once the dialog is closed, even if nothing was printed. Some browsers return from
// print() at once or open no dialog, and never tell the end. There the next key or touch restores the page.
export async function printed(name: string, figure: Element): Promise<void> {
  const picture = await together(figure);
  const { width, height } = picture.viewBox.baseVal;
  const page = h("style", {}, `@page { size: ${width}pt ${height}pt; margin: 0 }`);
  // Browsers round a page's size. A point less of the picture, which is white there, does not spill onto another page.
  const alone = h("div", { class: "alone", style: `height: ${height - 1}pt` }, page, picture);
  restore();
  const { title } = document;
  document.title = name;
  document.body.prepend(alone);
  const ends = new AbortController();
  restore = () => {
    ends.abort();
    alone.remove();
    document.title = title;
    restore = () => {};
  };
  for (const end of ["afterprint", "pointerdown", "keydown"])
    addEventListener(end, () => restore(), { signal: ends.signal });
  print();
}
