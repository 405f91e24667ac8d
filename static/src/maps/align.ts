// Aligns the entries of two texts: the longest common subsequence, and changed words between.

export const SIDES = ["first", "second", "both"] as const; // of a comparison; both: the difference
export type Side = (typeof SIDES)[number];

export interface Alignment {
  first: number[];
  second: number[];
} // equally long, ascending

export function align(a: readonly string[], b: readonly string[]): Alignment {
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * width + j] =
        a[i] === b[j]
          ? best[(i + 1) * width + j + 1]! + 1
          : Math.max(best[(i + 1) * width + j]!, best[i * width + j + 1]!);
  const first: number[] = [],
    second: number[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      first.push(i++);
      second.push(j++);
    } else if (best[(i + 1) * width + j]! >= best[i * width + j + 1]!) i++;
    else j++;
  }
  return withChanged({ first, second }, a.length, b.length);
}

// Between two shared entries, equal numbers of others correspond: the words that were changed.
function withChanged({ first, second }: Alignment, n: number, m: number): Alignment {
  const out: Alignment = { first: [], second: [] };
  const add = (i: number, j: number): void => {
    out.first.push(i);
    out.second.push(j);
  };
  for (let k = 0; k <= first.length; k++) {
    const [i, j] = k ? [first[k - 1]! + 1, second[k - 1]! + 1] : [0, 0];
    const [end, other] = k < first.length ? [first[k]!, second[k]!] : [n, m];
    if (end - i === other - j) for (let t = 0; t < end - i; t++) add(i + t, j + t);
    if (k < first.length) add(end, other);
  }
  return out;
}

// first - second over the aligned entries, [k][k].
export function difference(
  first: Float32Array,
  n: number,
  second: Float32Array,
  m: number,
  { first: rows, second: columns }: Alignment,
): Float32Array {
  const k = rows.length;
  const out = new Float32Array(k * k);
  for (let i = 0; i < k; i++)
    for (let j = 0; j < k; j++)
      out[i * k + j] = first[rows[i]! * n + rows[j]!]! - second[columns[i]! * m + columns[j]!]!;
  return out;
}
