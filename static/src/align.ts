// Longest common subsequence of two token lists: which entries of two texts stand for each other.

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
    if (a[i] === b[j]) (first.push(i++), second.push(j++));
    else if (best[(i + 1) * width + j]! >= best[i * width + j + 1]!) i++;
    else j++;
  }
  return { first, second };
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
