// Reads the arrays of a file that another program wrote: NumPy's .npz, plain or compressed, or safetensors. The result
// is arrays whose sizes were checked, or a FileError that says what is wrong and what to do.
import { BlobReader, ZipReader, type Entry, type FileEntry } from "@zip.js/zip.js/lib/zip-core-custom.js";
import { parseSafetensors, type Tensor } from "../app/safetensors";

export class FileError extends Error {}

export interface FileArrays {
  tensors: ReadonlyMap<string, Tensor>;
  strings: ReadonlyMap<string, readonly string[]>;
}

const BYTES_MAX = 2 ** 30; // of a file, and of what is unpacked from it
const ENTRIES_MAX = 1000;
const HEADER_MAX = 65536; // of one array

export async function readFileArrays(file: Blob): Promise<FileArrays> {
  if (file.size > BYTES_MAX)
    throw new FileError("The file is larger than 1 GiB. Save fewer layers, or the maps as float16.");
  const start = await bytesOf(file.slice(0, 9));
  if (beginsWith(start, "PK")) return readZip(file);
  if (beginsWith(start, "\x93NUMPY"))
    throw new FileError("The file is one NumPy array. Save named arrays with numpy.savez.");
  if (start[8] === 0x7b) return readTensors(await bytesOf(file));
  throw new FileError("The file is neither .npz nor .safetensors.");
}

const bytesOf = async (file: Blob): Promise<Uint8Array> => new Uint8Array(await file.arrayBuffer());

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

const damaged = (what: string): FileError => new FileError(`The .npz file is damaged: ${what}. Save it again.`);

async function readZip(file: Blob): Promise<FileArrays> {
  const tensors = new Map<string, Tensor>();
  const strings = new Map<string, readonly string[]>();
  let left = BYTES_MAX;
  for (const entry of await entriesOf(file)) {
    if (entry.directory || !entry.filename.endsWith(".npy")) continue;
    left -= entry.uncompressedSize;
    if (!(left >= 0))
      throw new FileError("The arrays are larger than 1 GiB. Save fewer layers, or the maps as float16.");
    const name = entry.filename.slice(0, -4);
    const array = arrayOf(name, await unpacked(name, entry));
    if (Array.isArray(array)) strings.set(name, array);
    else tensors.set(name, array);
  }
  return { tensors, strings };
}

async function entriesOf(file: Blob): Promise<Entry[]> {
  const entries: Entry[] = [];
  try {
    for await (const entry of new ZipReader(new BlobReader(file)).getEntriesGenerator()) {
      entries.push(entry);
      if (entries.length > ENTRIES_MAX) break;
    }
  } catch {
    throw damaged("its directory cannot be read");
  }
  if (entries.length > ENTRIES_MAX) throw new FileError(`The file has more than ${ENTRIES_MAX} arrays.`);
  return entries;
}

// Unpacks an array of the size that the directory says. Ends at the first byte beyond it.
async function unpacked(name: string, entry: FileEntry): Promise<Uint8Array> {
  try {
    const out = new Uint8Array(entry.uncompressedSize);
    let at = 0;
    const write = (part: Uint8Array): void => {
      out.set(part, at);
      at += part.length;
    };
    await entry.getData(new WritableStream({ write }), { checkCrc32: true, useWebWorkers: false });
    return out;
  } catch {
    throw damaged(`“${name}” cannot be unpacked`);
  }
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
  const aligned = data.byteOffset % Type.BYTES_PER_ELEMENT === 0 ? data : data.slice();
  return { dtype, shape, data: new Type(aligned.buffer as ArrayBuffer, aligned.byteOffset, count) };
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
