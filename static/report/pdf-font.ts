// A WOFF file as a PDF wants it: the TrueType tables unpacked, glyphs by character, widths in thousandths.

export interface Font {
  file: Uint8Array;
  glyphOf: (character: string) => number;
  widthOf: (glyph: number) => number;
  box: number[];
  ascent: number;
  descent: number;
}

const KEPT = ["cvt ", "fpgm", "glyf", "head", "hhea", "hmtx", "loca", "maxp", "prep"];

export async function through(bytes: Uint8Array, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes as BlobPart]).stream().pipeThrough(stream)).arrayBuffer());
}

// Returns the tables of a WOFF file, by tag (W3C, WOFF 1.0, section 4).
async function tablesOf(woff: Uint8Array): Promise<Map<string, Uint8Array>> {
  const view = new DataView(woff.buffer, woff.byteOffset, woff.byteLength);
  const tables = new Map<string, Uint8Array>();
  for (let k = 0; k < view.getUint16(12); k++) {
    const at = 44 + 20 * k;
    const tag = String.fromCharCode(...woff.subarray(at, at + 4));
    const [offset, packed, size] = [view.getUint32(at + 4), view.getUint32(at + 8), view.getUint32(at + 12)];
    const bytes = woff.subarray(offset, offset + packed);
    tables.set(tag, packed < size ? await through(bytes, new DecompressionStream("deflate")) : bytes);
  }
  return tables;
}

// The tables as a TrueType file. Checksums may be 0: readers of PDF do not look at them.
function trueType(tables: Map<string, Uint8Array>): Uint8Array {
  const kept = KEPT.filter((tag) => tables.has(tag));
  const padded = (n: number): number => (n + 3) & ~3;
  const head = 12 + 16 * kept.length;
  const file = new Uint8Array(kept.reduce((n, tag) => n + padded(tables.get(tag)!.length), head));
  const view = new DataView(file.buffer);
  const power = Math.floor(Math.log2(kept.length));
  view.setUint32(0, 0x00010000);
  [kept.length, 16 << power, power, 16 * kept.length - (16 << power)].forEach((v, k) => view.setUint16(4 + 2 * k, v));
  let at = head;
  kept.forEach((tag, k) => {
    const table = tables.get(tag)!,
      row = 12 + 16 * k;
    [...tag].forEach((c, n) => view.setUint8(row + n, c.charCodeAt(0)));
    view.setUint32(row + 8, at);
    view.setUint32(row + 12, table.length);
    file.set(table, at);
    at += padded(table.length);
  });
  return file;
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

// The cmap's table of format 4: segments of characters (OpenType, cmap).
function glyphsOf(cmap: DataView): (character: string) => number {
  let at = 0;
  for (let k = 0; k < cmap.getUint16(2); k++) {
    const offset = cmap.getUint32(8 + 8 * k);
    if (cmap.getUint16(offset) === 4) at = offset;
  }
  const n = cmap.getUint16(at + 6) / 2;
  return (character) => {
    const code = character.codePointAt(0)!;
    for (let s = 0; s < n; s++) {
      const end = cmap.getUint16(at + 14 + 2 * s),
        start = cmap.getUint16(at + 16 + 2 * (n + s));
      if (code > end || code < start) continue;
      const delta = cmap.getUint16(at + 16 + 2 * (2 * n + s)),
        place = at + 16 + 2 * (3 * n + s),
        range = cmap.getUint16(place);
      const glyph = range ? cmap.getUint16(place + range + 2 * (code - start)) : code;
      return glyph ? (glyph + delta) & 0xffff : 0;
    }
    return 0;
  };
}

export async function readFont(dataUrl: string): Promise<Font> {
  const tables = await tablesOf(Uint8Array.from(atob(dataUrl.slice(dataUrl.indexOf(",") + 1)), (c) => c.charCodeAt(0)));
  const [head, hhea, hmtx] = ["head", "hhea", "hmtx"].map((tag) => viewOf(tables.get(tag)!));
  const unit = 1000 / head!.getUint16(18),
    n = hhea!.getUint16(34);
  return {
    file: trueType(tables),
    glyphOf: glyphsOf(viewOf(tables.get("cmap")!)),
    widthOf: (glyph) => hmtx!.getUint16(4 * Math.min(glyph, n - 1)) * unit,
    box: [36, 38, 40, 42].map((at) => Math.round(head!.getInt16(at) * unit)),
    ascent: Math.round(hhea!.getInt16(4) * unit),
    descent: Math.round(hhea!.getInt16(6) * unit),
  };
}
