// Answers requests from an opened file, in the form in which the service answers: what views need for a text.
import type { AnalyzeRequest } from "../../../build/openapi";
import type { Answer, Summary } from "../app/answer";
import { lacking } from "../app/sources";
import { figuresAt, levelsOf, tokensOf } from "../heads/levels";
import { centre, leaveOut, similarityOf, toHalves } from "../heads/similarity";
import { similarityMaximum } from "../maps/analysis";
import { endsSentence, type OpenedFile } from "./opened-file";

const LEFT_OUT = "max_pooled_attentions"; // whole maps are here as soon
const KNOWN = ["attentions", "similarities", "head_outputs", "summary", LEFT_OUT];
const WORDS: Record<string, string> = {
  weighted_norms: "Attention weighted by norms",
  hidden_states: "The hidden state",
  head_distances: "The distance of heads",
  predictions: "A prediction",
  effects: "An effect",
};

const pause = (): Promise<void> => new Promise((done) => setTimeout(done));

// One head's arrays.
interface Maps {
  attention: Float32Array;
  outputs: Float32Array; // centred on request
  S: Float32Array; // 0 everywhere if the file has no outputs
}

export async function answerOf(file: OpenedFile, request: AnalyzeRequest, signal: AbortSignal): Promise<Answer> {
  refuse(file, request);
  const { layers, heads } = chosen(file, request);
  const { reduce = "none", dtype = "f4", outputs: requested = [] } = request;
  const T = file.encoding.ids.length;
  const across = reduce === "none" ? heads.length : 1; // maps a layer
  const make = (name: string, size: number): Float32Array | null =>
    requested.includes(name as "summary") ? new Float32Array(layers.length * across * size) : null;
  const attentions = make("attentions", T * (file.source ?? file.encoding).ids.length);
  const similarities = make("similarities", T * T);
  const outputs = file.width > 0 ? make("head_outputs", T * file.width) : null;
  const summary: Summary[][] | null = requested.includes("summary") && !file.source ? [] : null; // cross heads have none
  const counted = tokensOf(file.encoding.ids, file.encoding.sentences);
  for (const [n, l] of layers.entries()) {
    await pause();
    if (signal.aborted) throw signal.reason;
    summary?.push([]);
    for (const [k, h] of heads.entries()) {
      const maps = mapsOf(file, l, h, request);
      const at = n * across + (reduce === "none" ? k : 0);
      const share = reduce === "mean" ? 1 / heads.length : 1;
      if (attentions) addTo(attentions, maps.attention, at, share);
      if (similarities) addTo(similarities, request.normalize === "max" ? normalized(maps.S, T) : maps.S, at, share);
      if (outputs) outputs.set(file.outputs(l, h), at * T * file.width);
      summary?.[n]?.push(summaryOf(file, maps, request, counted));
    }
  }
  const answer: Answer = {
    model: file.name,
    sha256: file.checksum,
    request: JSON.stringify(request),
    truncated: false,
    windows: 0,
    centred: request.center === "text",
    encoding: file.encoding,
    source: file.source,
    layers,
    heads: reduce === "none" ? heads : [0],
    attentions: attentions && packed(attentions, dtype),
    similarities,
    weightedNorms: null,
    hiddenStates: null,
    headOutputs: outputs && (dtype === "f2" ? toHalves(outputs) : outputs),
    distances: null,
    coarse: null,
    pooled: null,
    profiles: {},
    parts: { attention: null, similarity: null },
    pairs: null,
    summary,
    timing: {},
    bytes: 0,
  };
  answer.bytes = [answer.attentions, similarities, answer.headOutputs].reduce(
    (sum, of) => sum + (of?.byteLength ?? 0),
    0,
  );
  return answer;
}

function refuse(file: OpenedFile, request: AnalyzeRequest): void {
  const { text, interventions, similarity_space, outputs = [] } = request;
  if (text !== file.text) throw lacking("Another text");
  if (interventions) throw lacking("A change of heads");
  if (similarity_space === "residual") throw lacking("Similarity in the residual space");
  const other = outputs.find((name) => !KNOWN.includes(name));
  if (other) throw lacking(WORDS[other] ?? `“${other}”`);
}

function chosen(file: OpenedFile, { layers, heads }: AnalyzeRequest): { layers: number[]; heads: number[] } {
  const all = (count: number): number[] => [...Array(count).keys()];
  const listed = (given: unknown, count: number): number[] =>
    Array.isArray(given) ? (given as number[]).map((n) => (n < 0 ? n + count : n)) : all(count);
  return {
    layers: layers === undefined || layers === "last" ? [file.layers - 1] : listed(layers, file.layers),
    heads: listed(heads, file.heads),
  };
}

function mapsOf(file: OpenedFile, l: number, h: number, { center, outputs = [] }: AnalyzeRequest): Maps {
  const T = file.encoding.ids.length;
  const attention = file.attention(l, h);
  const needed = outputs.some((name) => name === "similarities" || name === "summary");
  if (!file.width || !needed) return { attention, outputs: new Float32Array(0), S: new Float32Array(T * T) };
  const O = center === "text" ? centre(file.outputs(l, h), T) : file.outputs(l, h);
  return { attention, outputs: O, S: similarityOf(O, T) };
}

function addTo(sums: Float32Array, map: Float32Array, at: number, share: number): void {
  const from = at * map.length;
  for (let k = 0; k < map.length; k++) sums[from + k]! += map[k]! * share;
}

function normalized(S: Float32Array, T: number): Float32Array {
  const m = similarityMaximum(S, T);
  return m > 0 ? S.map((v) => v / m) : new Float32Array(S.length);
}

function packed(values: Float32Array, dtype: string): NonNullable<Answer["attentions"]> {
  if (dtype === "f2") return toHalves(values);
  if (dtype === "u1") return Uint8Array.from(values, (v) => Math.min(255, Math.max(0, Math.round(255 * v))));
  return values;
}

/* ---- figures ---- */

function summaryOf(
  { encoding, width }: OpenedFile,
  { attention, S }: Maps,
  { special_tokens, threshold = 0.3 }: AnalyzeRequest,
  counted: ReturnType<typeof tokensOf>,
): Summary {
  const T = encoding.ids.length;
  const none = encoding.special.every(Boolean);
  const out = encoding.special.map((special) => none || (special && special_tokens === "mask"));
  const rows = {
    ...attentionFigures(attention, T, out, encoding.tokens, encoding.special),
    ...{ longest_overlap: null, participation_ratio: null }, // the service alone finds these
  };
  if (!width)
    return {
      ...{ max_similarity: null, high_pairs: NaN, repeated_share: null, same_sentence_share: null, snr_dprime: null },
      ...{ repeated_same_sentence_share: null, mean_distance: null, focal_position: null, focal_share: null },
      ...rows,
    };
  leaveOut(S, T, out);
  const maximum = similarityMaximum(S, T);
  return {
    max_similarity: Number.isFinite(maximum) ? maximum : null,
    ...figuresAt(levelsOf(S, T, counted), threshold),
    ...rows,
    snr_dprime: maximum > 0 ? dprime(S, T, out, encoding.ids, encoding.sentences) : null,
  };
}

// Entropy of the rows, in nats, and the fraction of attention on separators and sentence ends. Tokens left out have no
// row, and the others' rows are of what remains.
function attentionFigures(
  map: Float32Array,
  T: number,
  out: readonly boolean[],
  tokens: readonly string[],
  special: readonly boolean[],
): Pick<Summary, "attention_entropy" | "separator_attention"> {
  let [rows, entropy, mass, separators] = [0, 0, 0, 0];
  for (let i = 0; i < T; i++) {
    if (out[i]) continue;
    let [sum, terms] = [0, 0];
    for (let j = 0; j < T; j++) {
      if (out[j]) continue;
      const v = map[i * T + j]!;
      sum += v;
      if (v > 0) terms -= v * Math.log(v);
      if (special[j] || endsSentence(tokens[j]!)) separators += v;
    }
    rows++;
    mass += sum;
    if (sum > 0) entropy += terms / sum + Math.log(sum);
  }
  return {
    attention_entropy: rows ? entropy / rows : NaN,
    separator_attention: mass > 0 ? separators / mass : NaN,
  };
}

// Separation of pairs of one token or one sentence from the rest, in standard deviations.
function dprime(
  S: Float32Array,
  T: number,
  out: readonly boolean[],
  ids: readonly number[],
  sentences: readonly number[],
): number | null {
  const of = [0, 1].map(() => ({ n: 0, sum: 0, squares: 0 }));
  for (let i = 0; i < T; i++)
    for (let j = i + 1; j < T; j++) {
      if (out[i] || out[j]) continue;
      const kind = of[Number(ids[i] === ids[j] || sentences[i] === sentences[j])]!;
      const v = S[i * T + j]!;
      kind.n++;
      kind.sum += v;
      kind.squares += v * v;
    }
  const [noise, signal] = of.map(({ n, sum, squares }) => ({ mean: sum / n, variance: squares / n - (sum / n) ** 2 }));
  const variance = (noise!.variance + signal!.variance) / 2;
  return variance > 0 ? (signal!.mean - noise!.mean) / Math.sqrt(variance) : null;
}
