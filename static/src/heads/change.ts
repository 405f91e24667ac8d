// The change of a head's maps between two passes, over the entries of both. It is the norm of the difference over the
// norm of the first (Frobenius, diagonals of S left out).

// ‖S - S'‖ / ‖S‖ from the outputs: ⟨S, S'⟩ is ‖O'ᵀO‖², so no T x T array is made. Rows: those that correspond.
export function similarityChange(
  first: ArrayLike<number>,
  second: ArrayLike<number>,
  T: readonly [number, number],
  rows: readonly [readonly number[], readonly number[]],
): number | null {
  const a = inner(first, first, T[0], T[0], rows[0], rows[0]);
  const b = inner(second, second, T[1], T[1], rows[1], rows[1]);
  const c = inner(first, second, T[0], T[1], rows[0], rows[1]);
  return a > 0 ? Math.sqrt(Math.max(0, a + b - 2 * c) / a) : null;
}

// Σ over i ≠ j of S_ij S'_ij.
function inner(
  O: ArrayLike<number>,
  P: ArrayLike<number>,
  TO: number,
  TP: number,
  rowsO: readonly number[],
  rowsP: readonly number[],
): number {
  const d = O.length / TO,
    e = P.length / TP;
  const gram = new Float64Array(d * e);
  let diagonal = 0;
  rowsO.forEach((i, n) => {
    const [at, bt] = [i * d, rowsP[n]! * e];
    let own = 0,
      other = 0;
    for (let k = 0; k < d; k++) own += O[at + k]! ** 2;
    for (let k = 0; k < e; k++) other += P[bt + k]! ** 2;
    diagonal += own * other;
    for (let k = 0; k < d; k++) {
      const v = O[at + k]!;
      for (let m = 0; m < e; m++) gram[k * e + m]! += v * P[bt + m]!;
    }
  });
  let sum = 0;
  for (const v of gram) sum += v * v;
  return sum - diagonal;
}

// ‖A - A'‖ / ‖A‖.
export function attentionChange(
  first: ArrayLike<number>,
  second: ArrayLike<number>,
  T: readonly [number, number],
  rows: readonly [readonly number[], readonly number[]],
): number | null {
  let moved = 0,
    whole = 0;
  const [p, q] = rows;
  for (let n = 0; n < p.length; n++)
    for (let m = 0; m < p.length; m++) {
      const a = first[p[n]! * T[0] + p[m]!]!;
      moved += (a - second[q[n]! * T[1] + q[m]!]!) ** 2;
      whole += a * a;
    }
  return whole > 0 ? Math.sqrt(moved / whole) : null;
}
