// Reads safetensors: u64 length, JSON header, then the tensors' bytes. Tensors are views into the answer,
// copied only where an alignment forces it.

export interface Tensor {
  dtype: string;
  shape: number[];
  data: Float32Array | Uint8Array | Int32Array | BigInt64Array | Uint16Array | Float64Array;
}
export interface Safetensors {
  tensors: Map<string, Tensor>;
  metadata: Record<string, string>;
}

const ARRAYS = {
  F64: Float64Array,
  F32: Float32Array,
  F16: Uint16Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
  I32: Int32Array,
  I64: BigInt64Array,
} as const;

export function parseSafetensors(bytes: Uint8Array): Safetensors {
  if (bytes.byteLength < 8) throw new Error("The answer ends before its header.");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = Number(view.getBigUint64(0, true));
  if (length > bytes.byteLength - 8) throw new Error("The answer ends inside its header.");
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const tensors = new Map<string, Tensor>();
  let metadata: Record<string, string> = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") metadata = entry as unknown as Record<string, string>;
    else tensors.set(name, tensor(name, entry, bytes, 8 + length));
  }
  return { tensors, metadata };
}

function tensor(
  name: string,
  entry: { dtype: string; shape: number[]; data_offsets: [number, number] },
  bytes: Uint8Array,
  start: number,
): Tensor {
  const Type = ARRAYS[entry.dtype as keyof typeof ARRAYS];
  if (!Type) throw new Error(`Tensor "${name}" has the unknown type ${entry.dtype}.`);
  const [from, to] = entry.data_offsets;
  const count = entry.shape.reduce((a, b) => a * b, 1);
  if (to - from !== count * Type.BYTES_PER_ELEMENT || start + to > bytes.byteLength)
    throw new Error(`Tensor "${name}" does not fit the answer.`);
  const at = bytes.byteOffset + start + from;
  const data =
    at % Type.BYTES_PER_ELEMENT === 0
      ? new Type(bytes.buffer as ArrayBuffer, at, count)
      : new Type(bytes.slice(start + from, start + to).buffer, 0, count);
  return { dtype: entry.dtype, shape: entry.shape, data };
}
