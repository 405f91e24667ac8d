// Figures as files: numbers as CSV, pictures as SVG and PNG.

export type Table = (string | number | null)[][];

function offer(name: string, data: Blob): void {
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
export const csvOf = (table: Table): string => table.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";

export function saveCsv(name: string, table: Table): void {
  offer(`${name}.csv`, new Blob([csvOf(table)], { type: "text/csv" }));
}

const textOf = (picture: SVGSVGElement): string => new XMLSerializer().serializeToString(picture);

export function saveSvg(name: string, picture: SVGSVGElement): void {
  offer(`${name}.svg`, new Blob([textOf(picture)], { type: "image/svg+xml" }));
}

// Twice the size on the page, for slides.
export async function savePng(name: string, picture: SVGSVGElement): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(picture))}`;
  await image.decode();
  const target = document.createElement("canvas");
  target.width = 2 * image.width;
  target.height = 2 * image.height;
  const context = target.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, target.width, target.height);
  const data = await new Promise<Blob | null>((done) => target.toBlob(done));
  if (data) offer(`${name}.png`, data);
}
