// Reads the arrays of a file that another program wrote: NumPy's .npz, plain or compressed, or safetensors. The result
// is arrays whose sizes were checked, or a FileError that says what is wrong and what to do.
import { parseSafetensors, type Tensor } from "../app/safetensors";
import { crc32 } from "../saving/png";

export class FileError extends Error {}

export interface FileArrays {
  tensors: ReadonlyMap<string, Tensor>;
  strings: ReadonlyMap<string, readonly string[]>;
}

export const BYTES_MAX = 2 ** 30; // of a file, and of what is unpacked from it
const ENTRIES_MAX = 1000;
const HEADER_MAX = 65536; // of one array

export async function readFileArrays(bytes: Uint8Array): Promise<FileArrays> {
  if (bytes.length > BYTES_MAX)
    throw new FileError("The file is larger than 1 GiB. Save fewer layers, or the maps as float16.");
  if (beginsWith(bytes, "PK")) return readZip(bytes);
  if (beginsWith(bytes, "\x93NUMPY"))
    throw new FileError("The file is one NumPy array. Save named arrays with numpy.savez.");
  if (bytes[8] === 0x7b) return readTensors(bytes);
  throw new FileError("The file is neither .npz nor .safetensors.");
}

const beginsWith = (bytes: Uint8Array, text: string): boolean =>
  [...text].every((c, k) => bytes[k] === c.charCodeAt(0));

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/* ---- safetensors ---- */

function readTensors(bytes: Uint8Array): FileArrays {
  try {
    const { tensors, metadata } = parseSafetensors(bytes);
    const strings = new Map<string, readonly string[]>();
    for (const name of ["tokens", "source_tokens"]) {
      const tokens: unknown = metadata[name] === undefined ? null : JSON.parse(metadata[name]);
      if (Array.isArray(tokens)) strings.set(name, tokens.map(String));
    }
    if (metadata.stack !== undefined) strings.set("stack", [metadata.stack]);
    return { tensors, strings };
  } catch (error) {
    const said = error instanceof Error && error.message.startsWith("Tensor") ? ` ${error.message}` : "";
    throw new FileError(`The safetensors file is damaged, or of a kind that is not read here.${said}`);
  }
}

/* ---- npz ---- */

interface Entry {
  name: string;
  method: number; // 0: stored, 8: deflated
  crc: number;
  packed: number;
  size: number;
  at: number; // of its own header
}

const damaged = (what: string): FileError => new FileError(`The .npz file is damaged: ${what}. Save it again.`);

async function readZip(bytes: Uint8Array): Promise<FileArrays> {
  const tensors = new Map<string, Tensor>();
  const strings = new Map<string, readonly string[]>();
  let left = BYTES_MAX;
  for (const entry of entriesOf(bytes)) {
    if (!entry.name.endsWith(".npy")) continue;
    left -= entry.size;
    if (left < 0) throw new FileError("The arrays are larger than 1 GiB. Save fewer layers, or the maps as float16.");
    const name = entry.name.slice(0, -4);
    const data = await unpacked(bytes, entry);
    if (crc32(data) !== entry.crc) throw damaged(`the checksum of “${name}” is wrong`);
    const array = arrayOf(name, data);
    if (Array.isArray(array)) strings.set(name, array);
    else tensors.set(name, array);
  }
  return { tensors, strings };
}

const END_BYTES = 22,
  COMMENT_MAX = 65535,
  ENTRY_BYTES = 46,
  LOCAL_BYTES = 30,
  ELSEWHERE = 0xffffffff; // the number is in the extra field of large files

// The archive's directory, which is at its end.
function entriesOf(bytes: Uint8Array): Entry[] {
  const view = viewOf(bytes);
  let end = bytes.length - END_BYTES;
  const least = Math.max(0, end - COMMENT_MAX);
  while (end >= least && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < least) throw damaged("its directory is missing");
  const count = view.getUint16(end + 10, true);
  if (count > ENTRIES_MAX) throw new FileError(`The file has more than ${ENTRIES_MAX} arrays.`);
  const entries: Entry[] = [];
  for (let n = 0, at = view.getUint32(end + 16, true); n < count; n++) {
    if (at + ENTRY_BYTES > end || view.getUint32(at, true) !== 0x02014b50) throw damaged("its directory ends early");
    const u16 = (offset: number): number => view.getUint16(at + offset, true);
    const u32 = (offset: number): number => view.getUint32(at + offset, true);
    const [named, extra] = [at + ENTRY_BYTES + u16(28), u16(30)];
    if (named + extra > end) throw damaged("its directory ends early");
    const large = largeNumbers(bytes.subarray(named, named + extra));
    const number = (offset: number): number => (u32(offset) === ELSEWHERE ? (large.shift() ?? Infinity) : u32(offset));
    const size = number(24);
    const packed = number(20);
    entries.push({
      name: new TextDecoder().decode(bytes.subarray(at + ENTRY_BYTES, named)),
      method: u16(10),
      crc: u32(16),
      packed,
      size,
      at: number(42),
    });
    at = named + extra + u16(32);
  }
  return entries;
}

// The numbers of the extra field for large files, in their order.
function largeNumbers(extra: Uint8Array): number[] {
  const view = viewOf(extra);
  for (let at = 0; at + 4 <= extra.length; at += 4 + view.getUint16(at + 2, true)) {
    if (view.getUint16(at, true) !== 1) continue;
    const count = Math.floor(Math.min(view.getUint16(at + 2, true), extra.length - at - 4) / 8);
    return Array.from({ length: count }, (_, k) => Number(view.getBigUint64(at + 4 + 8 * k, true)));
  }
  return [];
}

async function unpacked(bytes: Uint8Array, { name, method, packed, size, at }: Entry): Promise<Uint8Array> {
  if (at + LOCAL_BYTES > bytes.length) throw damaged(`“${name}” lies behind its end`);
  const view = viewOf(bytes);
  const from = at + LOCAL_BYTES + view.getUint16(at + 26, true) + view.getUint16(at + 28, true);
  if (from + packed > bytes.length) throw damaged(`“${name}” ends early`);
  const data = bytes.subarray(from, from + packed);
  if (method === 0 && packed === size) return data;
  if (method !== 8) throw damaged(`“${name}” is packed in an unknown way`);
  return inflated(name, data, size);
}

async function inflated(name: string, data: Uint8Array, size: number): Promise<Uint8Array> {
  const out = new Uint8Array(size);
  const reader = new Blob([data as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  let at = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > size) break; // more than it said
      out.set(value, at);
      at += value.length;
    }
  } catch {
    at = -1;
  }
  void reader.cancel().catch(() => {});
  if (at !== size) throw damaged(`“${name}” cannot be unpacked`);
  return out;
}

/* ---- npy ---- */

const KINDS: Record<string, Tensor["dtype"]> = {
  "<f2": "F16",
  "<f4": "F32",
  "<f8": "F64",
  "<i4": "I32",
  "<i8": "I64",
  "|u1": "U8",
  "|b1": "BOOL",
};
const TYPES = {
  F16: Uint16Array,
  F32: Float32Array,
  F64: Float64Array,
  I32: Int32Array,
  I64: BigInt64Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
} as const;

// One array, or a list of strings.
function arrayOf(name: string, bytes: Uint8Array): Tensor | string[] {
  const { kind, shape, data } = npyOf(name, bytes);
  const count = shape.reduce((a, b) => a * b, 1);
  const text = /^(?:<U|\|S)(\d+)$/.exec(kind);
  if (text) return stringsOf(name, data, kind.startsWith("<"), count, Number(text[1]));
  const dtype = KINDS[kind];
  if (!dtype) throw new FileError(refusalOf(name, kind));
  const Type = TYPES[dtype as keyof typeof TYPES];
  if (data.length !== count * Type.BYTES_PER_ELEMENT) throw damaged(`“${name}” has not as many values as its shape`);
  return { dtype, shape, data: new Type(data.slice().buffer, 0, count) };
}

const refusalOf = (name: string, kind: string): string =>
  kind.includes("O")
    ? `“${name}” holds Python objects. Save numbers of one shape (numpy.stack), and strings as numpy.array(…, dtype=str).`
    : `“${name}” is of type ${kind}. Save it as float32, float16 or float64.`;

function npyOf(name: string, bytes: Uint8Array): { kind: string; shape: number[]; data: Uint8Array } {
  if (bytes.length < 12 || !beginsWith(bytes, "\x93NUMPY")) throw damaged(`“${name}” is no NumPy array`);
  const view = viewOf(bytes);
  const old = bytes[6] === 1;
  const from = old ? 10 : 12;
  const length = old ? view.getUint16(8, true) : view.getUint32(8, true);
  if (length > HEADER_MAX || from + length > bytes.length) throw damaged(`the header of “${name}” ends early`);
  const header = new TextDecoder().decode(bytes.subarray(from, from + length));
  const kind = /'descr':\s*'([^']*)'/.exec(header)?.[1];
  const order = /'fortran_order':\s*(True|False)/.exec(header)?.[1];
  const shape = /'shape':\s*\(([\d,\s]*)\)/.exec(header)?.[1];
  if (kind === undefined || shape === undefined) throw new FileError(refusalOf(name, kind ?? "a record"));
  const sizes = shape
    .split(",")
    .filter((size) => size.trim() !== "")
    .map(Number);
  if (order === "True" && sizes.length > 1)
    throw new FileError(`“${name}” lies column by column. Save numpy.ascontiguousarray(${name}).`);
  return { kind, shape: sizes, data: bytes.subarray(from + length) };
}

const PARTS = 8192; // code points that one call takes
const STRINGS_MAX = 1_000_000;

function stringsOf(name: string, data: Uint8Array, wide: boolean, count: number, width: number): string[] {
  const unit = wide ? 4 : 1;
  if (data.length !== count * width * unit) throw damaged(`“${name}” has not as many values as its shape`);
  if (count > STRINGS_MAX) throw new FileError(`“${name}” has more than ${STRINGS_MAX} strings.`);
  if (width > PARTS) throw new FileError(`A string of “${name}” is longer than ${PARTS} characters.`);
  const view = viewOf(data);
  return Array.from({ length: count }, (_, n) => {
    if (!wide) return new TextDecoder().decode(data.subarray(n * width, (n + 1) * width)).replace(/\0+$/, "");
    const points = Array.from({ length: width }, (_, k) => view.getUint32(4 * (n * width + k), true));
    while (points.at(-1) === 0) points.pop();
    if (points.some((point) => point > 0x10ffff)) throw damaged(`“${name}” holds what is no character`);
    return String.fromCodePoint(...points);
  });
}
