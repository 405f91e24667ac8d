// A safetensors answer of POST /analyze as the viewer uses it.
import type { AnalyzeAnswer, HeadSummary, Tokens } from "../../../build/openapi";
import { isCausal } from "./model-facts";
import { readable } from "./token-labels";
import { parseSafetensors, type Tensor } from "./safetensors";

export interface Encoding {
  ids: number[];
  tokens: string[]; // as people read them
  types: number[];
  special: boolean[];
  offsets: [number, number][]; // code points of text, or of text_pair for type 1; -1 -1: it has no place there
  sentences: number[];
  words: (number | null)[];
  causal: boolean; // a token attends to itself and those before it only
  generated: boolean[]; // the model wrote the token
}

// One head in figures, as the service names them; the token itself is known from its position.
export type Summary = Omit<HeadSummary, "focal_token">;

export interface Answer {
  model: string;
  sha256: string;
  request: string;
  truncated: boolean;
  windows: number; // of the text, of which this is one; 0: the request names none
  centred: boolean; // similarities are of outputs without their mean; headOutputs are as they are
  encoding: Encoding; // of the rows
  source: Encoding | null; // of the columns, U, of cross heads; else they are the rows' T
  layers: number[];
  heads: number[];
  attentions: Float32Array | Uint16Array | Uint8Array | null; // [l][h][T][U]
  similarities: Float32Array | Uint8Array | null; // [l][h][T][T]
  weightedNorms: Float32Array | Uint16Array | null; // [l][h][T][U], f4 or f2
  hiddenStates: Float32Array | Uint16Array | null; // [1 + l][T][H], f4 or f2
  headOutputs: Float32Array | Uint16Array | null; // [l][h][T][d], f4 or f2
  distances: Float32Array | null; // [l*h][l*h]; NaN where there is none
  coarse: Coarse | null; // of a text whose whole maps come later
  pooled: Pooled | null; // of a long text
  profiles: Record<string, ArrayLike<number>>; // [l][h] by name; offsets [l][h][17]; none: not requested
  parts: Record<"attention" | "similarity", Float32Array | null>; // [l][h][rows][columns]
  pairs: FoundPairs | null;
  summary: Summary[][] | null; // [l][h]
  timing: Timing;
  bytes: number;
}

// Pairs of tokens as the service finds them, N falling.
export interface FoundPairs {
  i: ArrayLike<number>;
  j: ArrayLike<number>;
  similarity: Float32Array;
  normalized: Float32Array;
}

// Maps for thumbnails.
export interface Coarse {
  side: number; // blocks along a map
  attention: Uint16Array | Float32Array; // [l][h][side][side], f2 or f4: the largest element of each block
}

// The overview of a long text has these in place of its maps.
export interface Pooled extends Coarse {
  similarity: Uint16Array | Float32Array; // the same
}

export const WHOLE_MOST = 2048; // tokens: 17 MB a map

export const isLong = (overview: Answer | null | undefined): boolean => Boolean(overview?.pooled);
// True if one head's whole maps are too large for a page.
export const isTooLong = (overview: Answer | null | undefined): boolean =>
  isLong(overview) && (overview?.encoding.ids.length ?? 0) > WHOLE_MOST;

// An answer as JSON: lists of tokens and few numbers.
export type JsonAnswer = AnalyzeAnswer & { bytes: number };

export interface Timing {
  [stage: string]: number;
} // milliseconds, from Server-Timing

// The number of each token's word. A tokenizer without a pre-tokenizer, such as Llama's, numbers a text as one word:
// there, a word begins at each token with SentencePiece's space.
function wordsOf(numbers: readonly (number | null)[], tokens: readonly string[]): (number | null)[] {
  let begun = 0;
  return numbers.map((number, t) => {
    if (tokens[t]?.startsWith("▁")) begun++;
    return number === null ? null : number + begun;
  });
}

export function readAnswer(bytes: Uint8Array, timing: Timing): Answer {
  const { tensors, metadata } = parseSafetensors(bytes);
  const read = <T>(name: string): T => {
    const text = metadata[name];
    if (text === undefined) throw new Error(`The answer lacks "${name}".`);
    return JSON.parse(text) as T;
  };
  const list = (name: string): number[] => {
    const found = tensors.get(name);
    if (!found) throw new Error(`The answer lacks "${name}".`);
    return Array.from(found.data as BigInt64Array, Number);
  };
  const map = (name: string): Tensor["data"] | null => tensors.get(name)?.data ?? null;
  const model = metadata.model ?? "";
  return {
    model,
    sha256: metadata.model_sha256 ?? "",
    request: metadata.request ?? "",
    truncated: metadata.truncated === "true",
    windows: Number(map("windows")?.[0] ?? 0),
    centred: (JSON.parse(metadata.request ?? "{}") as { center?: string }).center === "text",
    encoding: {
      ids: list("input_ids"),
      tokens: read<string[]>("tokens").map((token) => readable(token, model)),
      types: list("token_type_ids"),
      special: list("special_tokens_mask").map(Boolean),
      offsets: inTwos(list("offset_mapping")),
      sentences: list("sentence_ids"),
      words: wordsOf(
        list("word_ids").map((w) => (w < 0 ? null : w)),
        read("tokens"),
      ),
      causal: isCausal(model) || metadata.stack === "decoder",
      generated: Array.from((map("generated") ?? []) as BigInt64Array, Boolean),
    },
    source: null,
    layers: list("layers"),
    heads: list("heads"),
    attentions: map("attentions") as Answer["attentions"],
    similarities: map("similarities") as Float32Array | null,
    weightedNorms: map("weighted_norms") as Answer["weightedNorms"],
    hiddenStates: map("hidden_states") as Answer["hiddenStates"],
    headOutputs: map("head_outputs") as Float32Array | Uint16Array | null,
    distances: map("head_distances") as Float32Array | null,
    ...pooledOf(tensors),
    profiles: Object.fromEntries(
      [...tensors].flatMap(([name, { data }]) =>
        name.startsWith("profiles_") ? [[name.slice("profiles_".length), data as ArrayLike<number>]] : [],
      ),
    ),
    parts: {
      attention: map("sliced_attentions") as Float32Array | null,
      similarity: map("sliced_similarities") as Float32Array | null,
    },
    pairs: pairsIn(tensors),
    summary: summaryOf(tensors),
    timing,
    bytes: bytes.byteLength,
  };
}

// The tokens of a text alone.
export const encodingOf = (answer: Tokens): Encoding => ({
  ids: answer.input_ids,
  tokens: answer.tokens.map((token) => readable(token, answer.model)),
  types: answer.token_type_ids,
  special: answer.special_tokens_mask.map(Boolean),
  offsets: (answer.offset_mapping ?? []) as [number, number][],
  sentences: answer.sentence_ids,
  words: wordsOf(answer.word_ids, answer.tokens),
  causal: false,
  generated: [],
});

// True if predictions are of the next token: of a causal model or a decoder.
export const predictsNext = ({ encoding, source }: Answer): boolean => encoding.causal || source !== null;

function pooledOf(tensors: Map<string, Tensor>): Pick<Answer, "coarse" | "pooled"> {
  const [attention, similarity] = ["attentions", "similarities"].map((of) => tensors.get(`max_pooled_${of}`));
  if (!attention) return { coarse: null, pooled: null };
  const coarse = { side: attention.shape.at(-1) ?? 0, attention: attention.data as Coarse["attention"] };
  return similarity
    ? { coarse: null, pooled: { ...coarse, similarity: similarity.data as Pooled["similarity"] } }
    : { coarse, pooled: null };
}

function pairsIn(tensors: Map<string, Tensor>): FoundPairs | null {
  const [i, j, similarity, normalized] = ["i", "j", "similarity", "normalized"].map(
    (name) => tensors.get(`pairs_${name}`)?.data,
  );
  if (!i || !j || !similarity || !normalized) return null;
  return {
    i: i as Int32Array,
    j: j as Int32Array,
    similarity: similarity as Float32Array,
    normalized: normalized as Float32Array,
  };
}

const inTwos = (flat: number[]): [number, number][] =>
  Array.from({ length: flat.length / 2 }, (_, n) => [flat[2 * n] ?? 0, flat[2 * n + 1] ?? 0]);

const FIGURES = [
  "max_similarity",
  "high_pairs",
  "repeated_share",
  "same_sentence_share",
  "repeated_same_sentence_share",
  "mean_distance",
  "focal_share",
  "attention_entropy",
  "separator_attention",
  "snr_dprime",
  "longest_overlap",
  "participation_ratio",
] as const;

export const NO_FIGURES = {
  ...Object.fromEntries(FIGURES.map((name) => [name, null])),
  high_pairs: NaN,
  focal_position: null,
} as unknown as Summary;

// The figures come as one [l][h] array each, NaN where a figure has no meaning.
function summaryOf(tensors: Map<string, Tensor>): Summary[][] | null {
  const shape = tensors.get("summary_high_pairs")?.shape;
  if (!shape) return null;
  const [layers, heads] = shape as [number, number];
  const value = (name: string, at: number): number | null => {
    const v = Number(tensors.get(`summary_${name}`)?.data[at] ?? NaN);
    return Number.isNaN(v) ? null : v;
  };
  return Array.from({ length: layers }, (_, l) =>
    Array.from({ length: heads }, (_, h) => {
      const at = l * heads + h;
      const focal = value("focal_position", at);
      return {
        ...Object.fromEntries(FIGURES.map((name) => [name, value(name, at)])),
        focal_position: focal !== null && focal >= 0 ? focal : null,
      } as Summary;
    }),
  );
}

// One head's part of a stack, by position in the selection. A view, not a copy.
export function partAt<T extends Float32Array | Uint8Array | Uint16Array>(
  stack: T,
  answer: Pick<Answer, "layers" | "heads">,
  l: number,
  h: number,
): T {
  const size = stack.length / (answer.layers.length * answer.heads.length);
  const at = (l * answer.heads.length + h) * size;
  return stack.subarray(at, at + size) as T;
}
