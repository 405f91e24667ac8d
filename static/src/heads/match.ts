// The likeness of two heads of different models: unbiased linear CKA (Nguyen, Raghu and Kornblith 2020) of their
// outputs over the words of several texts. Words are separated by white space, so that models with other tokenizers can
// be compared.
import type { Encoding } from "../app/answer";

export const WORDS_MOST = 192; // of all texts together: the work grows with the square

// The tokens of each word of a text, by the offsets of its tokens.
export function wordsOf(text: string, { offsets, special, types }: Encoding): number[][] {
  const word = new Map<number, number[]>();
  let n = -1;
  const wordAt: number[] = []; // by code point
  let inside = false;
  for (const character of text) {
    const space = /\s/.test(character);
    if (!space && !inside) n++;
    inside = !space;
    wordAt.push(space ? -1 : n);
  }
  offsets.forEach(([from, to], t) => {
    if (special[t] || types[t] || to <= from) return;
    // Byte-level tokens may begin with the space before the word.
    const at = wordAt.slice(from, to).find((k) => k >= 0) ?? -1;
    if (at >= 0) word.set(at, [...(word.get(at) ?? []), t]);
  });
  return Array.from({ length: n + 1 }, (_, k) => word.get(k) ?? []);
}

// The mean output of each word's tokens, [words][d], appended to `to`.
export function meansOf(outputs: Float32Array, T: number, words: readonly number[][]): Float32Array[] {
  const d = outputs.length / T;
  return words.map((tokens) => {
    const mean = new Float32Array(d);
    for (const t of tokens) for (let k = 0; k < d; k++) mean[k]! += outputs[t * d + k]! / tokens.length;
    return mean;
  });
}

export interface Gram {
  values: Float64Array; // [n][n], diagonal 0
  sums: Float64Array; // of rows
  sum: number;
  own: number; // HSIC with itself
}

export function gramOf(rows: readonly Float32Array[]): Gram {
  const n = rows.length;
  const values = new Float64Array(n * n);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < i; j++) {
      let dot = 0;
      const [a, b] = [rows[i]!, rows[j]!];
      for (let k = 0; k < a.length; k++) dot += a[k]! * b[k]!;
      values[i * n + j] = values[j * n + i] = dot;
    }
  const sums = new Float64Array(n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) sums[i]! += values[i * n + j]!;
  const gram = { values, sums, sum: sums.reduce((a, b) => a + b, 0), own: 0 };
  return { ...gram, own: hsic(gram, gram) };
}

// The unbiased estimator of Song et al. 2012.
function hsic(K: Gram, L: Gram): number {
  const n = K.sums.length;
  let trace = 0,
    cross = 0;
  for (let k = 0; k < K.values.length; k++) trace += K.values[k]! * L.values[k]!;
  for (let i = 0; i < n; i++) cross += K.sums[i]! * L.sums[i]!;
  return (trace + (K.sum * L.sum) / ((n - 1) * (n - 2)) - (2 * cross) / (n - 2)) / (n * (n - 3));
}

// NaN if one of the heads gives every word the same output.
export const ckaOf = (K: Gram, L: Gram): number => hsic(K, L) / Math.sqrt(K.own * L.own);
