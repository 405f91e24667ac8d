// Writes NumPy's .npz: a ZIP archive of stored .npy files. For what no single answer of the service holds: the two
// sides of a comparison.
import { crc32 } from "./png";
import type { Safetensors, Tensor } from "../app/safetensors";

export type Arrays = Map<string, Uint8Array>; // names and whole .npy files

const KINDS: Record<string, string> = {
  F64: "<f8",
  F32: "<f4",
  F16: "<f2",
  U8: "|u1",
  BOOL: "|b1",
  I32: "<i4",
  I64: "<i8",
};

function npy(kind: string, shape: readonly number[], data: Uint8Array): Uint8Array {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const header = `{'descr': '${kind}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const padded = `${header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11)}\n`;
  const out = new Uint8Array(10 + padded.length + data.length);
  out.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0]);
  new DataView(out.buffer).setUint16(8, padded.length, true);
  out.set(new TextEncoder().encode(padded), 10);
  out.set(data, 10 + padded.length);
  return out;
}

const npyOf = ({ dtype, shape, data }: Tensor): Uint8Array =>
  npy(KINDS[dtype]!, shape, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));

// One string, or a list of them, as `<U`.
function npyOfStrings(strings: string | readonly string[]): Uint8Array {
  const list = typeof strings === "string" ? [strings] : strings;
  const points = list.map((s) => Array.from(s, (c) => c.codePointAt(0)!));
  const width = Math.max(1, ...points.map((p) => p.length));
  const data = new Uint32Array(list.length * width);
  points.forEach((p, n) => data.set(p, n * width));
  return npy(`<U${width}`, typeof strings === "string" ? [] : [list.length], new Uint8Array(data.buffer));
}

// Rows of one length, as float32; NaN where there is no number.
export const npyOfRows = (rows: readonly (readonly (number | null)[])[]): Uint8Array =>
  npy(
    "<f4",
    [rows.length, rows[0]?.length ?? 0],
    new Uint8Array(Float32Array.from(rows.flat(), (v) => v ?? NaN).buffer),
  );

// A side of a comparison, by what its names begin with: every array of its answer, its tokens, and the request it answers.
export function addSide(arrays: Arrays, side: string, { tensors, metadata }: Safetensors): void {
  for (const [name, tensor] of tensors) arrays.set(`${side}${name}`, npyOf(tensor));
  for (const [name, text] of Object.entries(metadata))
    arrays.set(`${side}${name}`, npyOfStrings(name.endsWith("tokens") ? (JSON.parse(text) as string[]) : text));
}

// Stored, not compressed; sizes below 4 GiB.
export function npzOf(arrays: Arrays): Blob {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  for (const [name, data] of arrays) {
    const file = new TextEncoder().encode(`${name}.npy`);
    const sum = crc32(data);
    const local = new DataView(new ArrayBuffer(30));
    const entry = new DataView(new ArrayBuffer(46));
    local.setUint32(0, 0x04034b50, true);
    entry.setUint32(0, 0x02014b50, true);
    entry.setUint16(4, 20, true);
    // From "version needed" to "extra length" both headers are alike.
    for (const [view, from] of [
      [local, 4],
      [entry, 6],
    ] as const) {
      view.setUint16(from, 20, true);
      view.setUint16(from + 8, 0x21, true); // 1980-01-01
      view.setUint32(from + 10, sum, true);
      view.setUint32(from + 14, data.length, true);
      view.setUint32(from + 18, data.length, true);
      view.setUint16(from + 22, file.length, true);
    }
    entry.setUint32(42, at, true);
    parts.push(new Uint8Array(local.buffer), file, data);
    directory.push(new Uint8Array(entry.buffer), file);
    at += 30 + file.length + data.length;
  }
  const end = new DataView(new ArrayBuffer(22));
  end.setUint32(0, 0x06054b50, true);
  end.setUint16(8, arrays.size, true);
  end.setUint16(10, arrays.size, true);
  end.setUint32(
    12,
    directory.reduce((sum, part) => sum + part.length, 0),
    true,
  );
  end.setUint32(16, at, true);
  return new Blob([...parts, ...directory, new Uint8Array(end.buffer)] as BlobPart[], { type: "application/x-npz" });
}
