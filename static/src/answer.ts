// A safetensors answer of POST /analyze as the viewer uses it.
import { parseSafetensors, type Tensor } from "./safetensors";

export interface Encoding {
  ids: number[];
  tokens: string[];
  types: number[];
  special: boolean[];
  offsets: [number, number][]; // code points of text, or of text_pair for type 1
  sentences: number[];
  words: (number | null)[];
}

export interface Summary {
  max_similarity: number | null;
  high_pairs: number;
  repeated_share: number | null;
  same_sentence_share: number | null;
  repeated_same_sentence_share: number | null;
  mean_distance: number | null;
  focal_token: number | null;
  focal_share: number | null;
  attention_entropy: number | null;
  separator_attention: number | null;
  snr_dprime: number | null;
}

export interface Answer {
  model: string;
  sha256: string;
  request: string;
  truncated: boolean;
  encoding: Encoding;
  layers: number[];
  heads: number[];
  attentions: Float32Array | Uint8Array | null; // [l][h][T][T]
  similarities: Float32Array | Uint8Array | null; // [l][h][T][T]
  headOutputs: Float32Array | null; // [l][h][T][d]
  summary: Summary[][] | null; // [l][h]
  timing: Timing;
  bytes: number;
}

export interface Timing { [stage: string]: number } // milliseconds, from Server-Timing

export function readAnswer(bytes: Uint8Array, timing: Timing): Answer {
  const { tensors, metadata } = parseSafetensors(bytes);
  const read = <T>(name: string): T => {
    const text = metadata[name];
    if (text === undefined) throw new Error(`The answer lacks "${name}".`);
    return JSON.parse(text) as T;
  };
  const list = <T>(name: string): T[] => {
    const found = tensors.get(name);
    return found ? (Array.from(found.data as Int32Array, Number) as T[]) : read<T[]>(name);
  };
  const map = (name: string): Tensor["data"] | null => tensors.get(name)?.data ?? null;
  return {
    model: metadata.model ?? "",
    sha256: metadata.model_sha256 ?? metadata.sha256 ?? "",
    request: metadata.request ?? "",
    truncated: metadata.truncated === "true",
    encoding: {
      ids: list("input_ids"),
      tokens: read("tokens"),
      types: list("token_type_ids"),
      special: list<number>("special_tokens_mask").map(Boolean),
      offsets: pairsOf(tensors.get("offset_mapping"), () => read("offset_mapping")),
      sentences: list("sentence_ids"),
      words: list<number | null>("word_ids").map((w) => (w === null || w < 0 ? null : w)),
    },
    layers: list("layers"),
    heads: list("heads"),
    attentions: map("attentions") as Float32Array | null,
    similarities: map("similarities") as Float32Array | null,
    headOutputs: map("head_outputs") as Float32Array | null,
    summary: metadata.summary === undefined ? null : read("summary"),
    timing,
    bytes: bytes.byteLength,
  };
}

function pairsOf(tensor: Tensor | undefined, otherwise: () => [number, number][]): [number, number][] {
  if (!tensor) return otherwise();
  const flat = Array.from(tensor.data as Int32Array, Number);
  return Array.from({ length: flat.length / 2 }, (_, n) => [flat[2 * n]!, flat[2 * n + 1]!]);
}

// One [T][T] map of a stack, by position in the selection. A view, not a copy.
export function mapAt<T extends Float32Array | Uint8Array>(stack: T, answer: Answer, l: number, h: number): T {
  const size = answer.encoding.ids.length ** 2;
  const at = (l * answer.heads.length + h) * size;
  return stack.subarray(at, at + size) as T;
}
