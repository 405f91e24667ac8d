// Writes NumPy's .npz: a ZIP archive of stored .npy files. For what no single answer of the service holds: the two
// sides of a comparison.
import { BlobWriter, Uint8ArrayReader, ZipWriter } from "@zip.js/zip.js/lib/zip-core-custom.js";
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

// Stored, not compressed, and without dates: the same arrays are the same bytes.
export async function npzOf(arrays: Arrays): Promise<Blob> {
  const zip = new ZipWriter(new BlobWriter("application/x-npz"), {
    level: 0,
    useWebWorkers: false,
    extendedTimestamp: false,
    lastModDate: new Date(1980, 0, 1),
  });
  for (const [name, data] of arrays) await zip.add(`${name}.npy`, new Uint8ArrayReader(data));
  return zip.close();
}
