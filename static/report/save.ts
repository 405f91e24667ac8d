// Figures as files: numbers as CSV, pictures as SVG and PNG (pdf.ts makes the PDF).
import { svg } from "../src/ui/dom";

export type Table = (string | number | null)[][];

export function offer(name: string, data: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const field = (v: string | number | null): string => {
  const text = v === null ? "" : String(v);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
export const csvOf = (table: Table): Blob =>
  new Blob([table.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n"], { type: "text/csv" });

const ROW = 1240; // pixels of a row of panels

// A figure's panels as one picture on white, so that it is saved whole. Their colours are in their attributes.
export function together(figure: Element): SVGSVGElement {
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg" });
  let x = 0,
    y = 0,
    right = 0,
    row = 0;
  for (const panel of figure.querySelectorAll<SVGSVGElement>(".panels > svg")) {
    const copy = panel.cloneNode(true) as SVGSVGElement;
    const [width, height] = [Number(panel.getAttribute("width")), Number(panel.getAttribute("height"))];
    if (x && x + width > ROW) [x, y, row] = [0, y + row, 0];
    copy.setAttribute("x", String(x));
    copy.setAttribute("y", String(y));
    root.append(copy);
    x += width;
    right = Math.max(right, x);
    row = Math.max(row, height);
  }
  for (const [name, value] of Object.entries({ width: right, height: y + row, viewBox: `0 0 ${right} ${y + row}` }))
    root.setAttribute(name, String(value));
  root.prepend(svg("rect", { width: right, height: y + row, fill: "#ffffff" }));
  return root;
}

const textOf = (picture: SVGSVGElement): string => new XMLSerializer().serializeToString(picture);
export const svgOf = (picture: SVGSVGElement): Blob => new Blob([textOf(picture)], { type: "image/svg+xml" });

// Twice the size on the page, for slides.
export async function pngOf(picture: SVGSVGElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(picture))}`;
  await image.decode();
  const target = document.createElement("canvas");
  target.width = 2 * image.width;
  target.height = 2 * image.height;
  const context = target.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, target.width, target.height);
  return new Promise((done, fail) => target.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture")))));
}
