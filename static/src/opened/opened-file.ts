// The attention arrays of another program's file, checked: shapes, values and tokens. Special tokens, words and
// sentences follow from how the tokens are written.
import type { Encoding } from "../app/answer";
import type { Tensor } from "../app/safetensors";
import { readableAs, type TokenSpelling } from "../app/token-labels";
import { fromHalves } from "../heads/similarity";
import { FileError, readFileArrays, type FileArrays } from "./file-arrays";
import { withLayersJoined } from "./layers";

export interface OpenedFile {
  name: string;
  checksum: string;
  layers: number;
  heads: number; // a layer
  width: number; // of a head's output; 0: the file has none
  encoding: Encoding; // of the rows
  source: Encoding | null; // of the columns of cross heads; else they are the rows' tokens
  text: string; // of cross heads: that of the columns
  target: string; // of cross heads: that of the rows; else ""
  notes: string[]; // what the file lacks or has otherwise than a model would
  attention(l: number, h: number): Float32Array;
  outputs(l: number, h: number): Float32Array; // [T][width]
}

const TOKENS_MAX = 4096;
const CROSS_TOKENS_MAX = 512; // of either text
const HEADS_MAX = 16384; // in all layers

export async function openedFile(name: string, file: Blob): Promise<OpenedFile> {
  const { arrays, numbers: layerNumbers } = withLayersJoined(await readFileArrays(file));
  const attentions = numbers(arrays, "attentions");
  if (!attentions) throw new FileError(`The file has no array “attentions”. ${listOf(arrays)}`);
  const [layers, heads, T, columns] = withoutBatch("attentions", attentions, "[layers][heads][T][T]");
  const crosses = arrays.strings.get("stack")?.[0] === "cross";
  if (T !== columns && !crosses)
    throw new FileError(
      `The maps of “attentions” are ${T} × ${columns}. They must be square: a text's tokens by the same. ` +
        "For cross heads, from a target to a text, save stack=“cross” and source_tokens, too.",
    );
  checkSizes(layers, heads, T, columns, crosses);
  const outputs = numbers(arrays, "head_outputs");
  const width = outputs ? widthOf(outputs, layers, heads, T) : 0;
  const attention = headsOf(attentions, heads, T * columns);
  const { lower, uneven } = await checkWeights(attention, layers, heads, T);
  if (outputs) await checkOutputs(headsOf(outputs, heads, T * width), layers, heads, width);
  const rows = tokensOf(arrays, "tokens", T, lower && !crosses);
  const across = crosses ? tokensOf(arrays, "source_tokens", columns, false) : null;
  const notes = [...new Set([...rows.notes, ...(across?.notes ?? [])])];
  if (across) notes.unshift("Cross heads: rows are tokens of the target, columns those of the text.");
  if (!outputs) notes.unshift("No similarities: the file has no “head_outputs”.");
  if (layerNumbers.some((number, l) => number !== l))
    notes.push(`The file has layers ${layerNumbers.join(", ")}. They are numbered from 0 here.`);
  if (uneven > 0)
    notes.push(`${uneven.toLocaleString("en")} rows of attention do not sum to 1. They are shown as they are.`);
  return {
    ...{ name, checksum: await checksumOf(file), layers, heads, width, notes, attention },
    ...{ encoding: rows.encoding, source: across?.encoding ?? null },
    ...{ text: (across ?? rows).text, target: across ? rows.text : "" },
    outputs: outputs ? headsOf(outputs, heads, T * width) : () => new Float32Array(0),
  };
}

/* ---- arrays ---- */

const REAL = ["F16", "F32", "F64"];

function numbers({ tensors, strings }: FileArrays, name: string): Tensor | null {
  const tensor = tensors.get(name);
  if (!tensor) {
    if (strings.has(name)) throw new FileError(`“${name}” holds strings. Save numbers: float32 or float16.`);
    return null;
  }
  if (!REAL.includes(tensor.dtype))
    throw new FileError(`“${name}” is of type ${tensor.dtype}. Save it as float32, float16 or float64.`);
  return tensor;
}

function listOf({ tensors, strings }: FileArrays): string {
  const names = [...tensors.keys(), ...strings.keys()].slice(0, 8).map((name) => `“${name.slice(0, 40)}”`);
  return names.length ? `It has ${names.join(", ")}.` : "It has no arrays.";
}

// Transformers' tuples have an axis of the batch, which must be of one text.
function withoutBatch(name: string, { shape }: Tensor, expected: string): [number, number, number, number] {
  const written = `(${shape.join(", ")})`;
  if (!shape.every((size) => Number.isInteger(size) && size >= 0))
    throw new FileError(`The shape of “${name}” is ${written}, which is none.`);
  if (shape.length === 5 && shape[1] !== 1)
    throw new FileError(`“${name}” has the maps of ${shape[1]} texts, shape ${written}. Save one text: ${name}[:, 0].`);
  const four = shape.length === 5 ? shape.filter((_, axis) => axis !== 1) : shape;
  if (four.length !== 4) throw new FileError(`“${name}” has shape ${written}. It must be ${expected}.`);
  return four as [number, number, number, number];
}

function checkSizes(layers: number, heads: number, T: number, columns: number, crosses: boolean): void {
  if (layers < 1 || heads < 1 || T < 1 || columns < 1) throw new FileError("“attentions” is empty.");
  if (layers * heads > HEADS_MAX)
    throw new FileError(
      `The file has ${layers} × ${heads} heads; at most ${HEADS_MAX} can be shown. Save fewer layers.`,
    );
  if (crosses && Math.max(T, columns) > CROSS_TOKENS_MAX)
    throw new FileError(
      `The maps of cross heads are ${T} × ${columns}; at most ${CROSS_TOKENS_MAX} tokens of each text can be shown. ` +
        "Save shorter texts.",
    );
  if (T > TOKENS_MAX)
    throw new FileError(`The text has ${T} tokens; at most ${TOKENS_MAX} can be shown. Save a shorter text.`);
}

function widthOf(outputs: Tensor, layers: number, heads: number, T: number): number {
  const [l, h, t, d] = withoutBatch("head_outputs", outputs, "[layers][heads][T][d]");
  if (l !== layers || h !== heads || t !== T || d < 1)
    throw new FileError(
      `“head_outputs” has shape (${outputs.shape.join(", ")}). It must be [${layers}][${heads}][${T}][d], as “attentions”.`,
    );
  return d;
}

// Each head's values as single-precision numbers.
function headsOf({ dtype, data }: Tensor, heads: number, size: number): (l: number, h: number) => Float32Array {
  return (l, h) => {
    const part = data.subarray((l * heads + h) * size, (l * heads + h + 1) * size);
    if (dtype === "F16") return fromHalves(part as Uint16Array);
    return part instanceof Float32Array ? part : Float32Array.from(part as Float64Array);
  };
}

const pause = (): Promise<void> => new Promise((done) => setTimeout(done));

const ROUNDED = 1e-3; // above 1, and below 0
const UNEVEN = 0.02; // off a row's sum

// Counts rows that do not sum to 1, and finds whether all values above the diagonal are 0.
async function checkWeights(
  attention: OpenedFile["attention"],
  layers: number,
  heads: number,
  T: number,
): Promise<{ lower: boolean; uneven: number }> {
  let [lower, uneven] = [T > 1, 0];
  for (let l = 0; l < layers; l++) {
    for (let h = 0; h < heads; h++) {
      const map = attention(l, h);
      const columns = map.length / T;
      for (let i = 0; i < T; i++) {
        let sum = 0;
        for (let j = 0; j < columns; j++) {
          const v = map[i * columns + j]!;
          if (!(v >= -ROUNDED && v <= 1 + ROUNDED)) throw new FileError(badWeight(l, h, i, j, v));
          if (j > i && v > 0) lower = false;
          sum += v;
        }
        if (Math.abs(sum - 1) > UNEVEN) uneven++;
      }
    }
    await pause();
  }
  return { lower, uneven };
}

const badWeight = (l: number, h: number, i: number, j: number, v: number): string =>
  `attentions[${l}, ${h}, ${i}, ${j}] is ${v}. Attention is from 0 to 1. ` +
  (Number.isFinite(v) ? "Save the weights after the softmax." : "Look for padding in the text, and save without it.");

async function checkOutputs(
  outputs: OpenedFile["outputs"],
  layers: number,
  heads: number,
  width: number,
): Promise<void> {
  for (let l = 0; l < layers; l++) {
    for (let h = 0; h < heads; h++) {
      const bad = outputs(l, h).findIndex((v) => !Number.isFinite(v));
      if (bad < 0) continue;
      const [t, k] = [Math.floor(bad / width), bad % width];
      throw new FileError(`head_outputs[${l}, ${h}, ${t}, ${k}] is no finite number. Save as float32.`);
    }
    await pause();
  }
}

// 64 bits that differ for files that differ (FNV-1a, twice).
async function checksumOf(file: Blob): Promise<string> {
  let [a, b] = [0x811c9dc5, 0x01000193];
  for (const reader = file.stream().getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    for (const byte of value) {
      a = Math.imul(a ^ byte, 0x01000193);
      b = Math.imul(b ^ byte, 0x85ebca6b) + 1;
    }
  }
  return [a, b].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}

/* ---- tokens ---- */

const SPECIAL = /^(\[(CLS|SEP|PAD|BOS|EOS)\]|<\/?s>|<(pad|bos|eos)>|<\|.*\|>)$/;
const SENTENCE_END = /^[␣#]*[.!?。！？]+$/u;
export const endsSentence = (token: string): boolean => SENTENCE_END.test(token);

const spellingOf = (tokens: readonly string[]): TokenSpelling =>
  tokens.some((token) => token.includes("Ġ"))
    ? "byte-level BPE"
    : tokens.some((token) => token.startsWith("▁"))
      ? "Unigram"
      : undefined;

// The tokens of the maps' rows, or of their columns.
function tokensOf(arrays: FileArrays, name: "tokens" | "source_tokens", T: number, causal: boolean) {
  const notes: string[] = [];
  const written = arrays.strings.get(name);
  if (written && written.length !== T)
    throw new FileError(
      `“${name}” has ${written.length} entries; the maps have ${T} ${name === "tokens" ? "rows" : "columns"}.`,
    );
  if (!written) notes.push(`No tokens: the file has no “${name}”, so positions stand in their place.`);
  const raw = written ?? Array.from({ length: T }, (_, t) => String(t));
  const spelling = spellingOf(raw);
  const special = raw.map((token) => SPECIAL.test(token));
  const tokens = raw.map((token) => readableAs(token, spelling));
  const { text, offsets } = textOf(tokens, special, spelling !== undefined);
  const encoding: Encoding = {
    ids: raw.map((token) => raw.indexOf(token)),
    tokens,
    types: raw.map(() => 0),
    special,
    offsets,
    sentences: sentencesOf(tokens, special),
    words: wordsOf(raw, special, spelling),
    causal,
    generated: [],
  };
  if (written) notes.push("Sentences end at “.”, “!” and “?”.");
  return { encoding, text, notes };
}

function sentencesOf(tokens: readonly string[], special: readonly boolean[]): number[] {
  let sentence = 0;
  return tokens.map((_, t) => {
    const before = t > 0 && !special[t - 1] && endsSentence(tokens[t - 1]!);
    if (before && !special[t]) sentence++;
    return sentence;
  });
}

function wordsOf(raw: readonly string[], special: readonly boolean[], spelling: TokenSpelling): (number | null)[] {
  let word = -1;
  return raw.map((token, t) => {
    if (special[t]) return null;
    const goes = spelling ? !/^[Ġ▁]/.test(token) : token.startsWith("##");
    if (!goes || t === 0 || special[t - 1]) word++;
    return word;
  });
}

// The text that the tokens spell, and the characters of each. Tokens that name no spaces are put a space apart.
function textOf(tokens: readonly string[], special: readonly boolean[], spaced: boolean) {
  let text = "",
    length = 0; // code points
  const add = (part: string): void => {
    text += part;
    length += Array.from(part).length;
  };
  const offsets = tokens.map((token, t): [number, number] => {
    if (special[t]) return [0, 0];
    if (spaced) {
      const spaces = /^␣*/.exec(token)![0].length;
      if (text) add(" ".repeat(spaces));
      const from = length;
      add(token.slice(spaces).replaceAll("␣", " ").replaceAll("␊", "\n"));
      return [from, length];
    }
    const piece = token.startsWith("##") && token.length > 2;
    if (text && !piece) add(" ");
    const from = length;
    add(piece ? token.slice(2) : token);
    return [from, length];
  });
  return { text, offsets };
}
