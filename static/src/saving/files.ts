// Tables and drawings as files: of the viewer, and of a report.
export type Table = (string | number | null)[][];

export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// safe: text that a spreadsheet takes for a formula gets an apostrophe before it.
export function csvText(rows: Table, safe = false): string {
  const cell = (value: string | number | null): string => {
    const formula = safe && typeof value === "string" && /^[=+\-@\t\r]/.test(value);
    const text = (formula ? "'" : "") + String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

export const csvBlob = (rows: Table, safe = false): Blob =>
  new Blob([csvText(rows, safe)], { type: "text/csv;charset=utf-8" });

const textOf = (drawing: SVGSVGElement): string => new XMLSerializer().serializeToString(drawing);

export const svgBlob = (drawing: SVGSVGElement): Blob => new Blob([textOf(drawing)], { type: "image/svg+xml" });

// Twice the size on the page, for slides.
export async function pngBlob(drawing: SVGSVGElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(drawing))}`;
  await image.decode();
  const target = document.createElement("canvas");
  [target.width, target.height] = [2 * image.width, 2 * image.height];
  const context = target.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, target.width, target.height);
  const blob = await new Promise<Blob | null>((done) => target.toBlob(done));
  if (!blob) throw new Error("The picture is too large for this browser.");
  return blob;
}
