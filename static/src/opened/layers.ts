// Joins arrays that a file has one a layer into one of all layers. TransformerLens writes such files, and so does
// --names hooks. numpy.savez does, too, if it is given a tuple.
import type { Tensor } from "../app/safetensors";
import { FileError, type FileArrays } from "./file-arrays";

// The first kind of which a file has arrays counts. `outputs` are [T][heads][d].
const KINDS = [
  { maps: /^blocks\.(\d+)\.attn\.hook_pattern$/, outputs: /^blocks\.(\d+)\.attn\.hook_z$/ },
  { maps: /^encoder\.(\d+)\.attn\.hook_pattern$/, outputs: /^encoder\.(\d+)\.attn\.hook_z$/ },
  { maps: /^decoder\.(\d+)\.attn\.hook_pattern$/, outputs: /^decoder\.(\d+)\.attn\.hook_z$/ },
  { maps: /^decoder\.(\d+)\.cross_attn\.hook_pattern$/, outputs: /^decoder\.(\d+)\.cross_attn\.hook_z$/ },
  { maps: /^arr_(\d+)$/, outputs: null },
];

interface Layer {
  number: number;
  name: string;
  tensor: Tensor;
}

function layersOf(arrays: FileArrays, pattern: RegExp): Layer[] {
  const found: Layer[] = [];
  for (const [name, tensor] of arrays.tensors) {
    const number = pattern.exec(name)?.[1];
    if (number !== undefined) found.push({ number: Number(number), name, tensor });
  }
  return found.sort((a, b) => a.number - b.number);
}

// The arrays with “attentions” and “head_outputs” beside those of the layers, and the layers' numbers.
export function withLayersJoined(arrays: FileArrays): { arrays: FileArrays; numbers: number[] } {
  const kind = KINDS.find(({ maps }) => layersOf(arrays, maps).length > 0);
  if (!kind || arrays.tensors.has("attentions")) return { arrays, numbers: [] };
  const maps = layersOf(arrays, kind.maps);
  const outputs = kind.outputs ? layersOf(arrays, kind.outputs) : [];
  const tensors = new Map(arrays.tensors);
  const whole = !kind.outputs && maps.length === 1; // numpy.savez(file, attentions)
  tensors.set("attentions", whole ? maps[0]!.tensor : joined(maps));
  if (outputs.length) tensors.set("head_outputs", joined(outputs.map(headsFirst)));
  return { arrays: { ...arrays, tensors }, numbers: whole ? [] : maps.map(({ number }) => number) };
}

type NewValues = new (count: number) => Tensor["data"];

function joined(layers: readonly Layer[]): Tensor {
  const { name, tensor: first } = layers[0]!;
  const kind = ({ dtype, shape }: Tensor): string => JSON.stringify([dtype, shape]);
  const other = layers.find(({ tensor }) => kind(tensor) !== kind(first));
  if (other) throw new FileError(`“${name}” and “${other.name}” are of different types or shapes. Save them alike.`);
  const data = new (first.data.constructor as NewValues)(layers.length * first.data.length);
  layers.forEach(({ tensor }, n) => data.set(tensor.data as never, n * first.data.length));
  return { dtype: first.dtype, shape: [layers.length, ...first.shape], data };
}

// [T][heads][d] as [heads][T][d], perhaps with the axis of a batch before. Other shapes stay, to be refused later.
function headsFirst({ number, name, tensor }: Layer): Layer {
  const { shape, dtype } = tensor;
  const [T, heads, d] = shape.slice(-3) as [number, number, number];
  if (T * heads * d !== tensor.data.length || !shape.every((size) => Number.isInteger(size) && size > 0))
    return { number, name, tensor };
  const data = new (tensor.data.constructor as NewValues)(tensor.data.length);
  for (let t = 0; t < T; t++)
    for (let h = 0; h < heads; h++)
      data.set(tensor.data.subarray((t * heads + h) * d, (t * heads + h + 1) * d) as never, (h * T + t) * d);
  return { number, name, tensor: { dtype, shape: [...shape.slice(0, -3), heads, T, d], data } };
}
