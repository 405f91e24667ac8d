// Classical multidimensional scaling (Torgerson 1952): points of the plane with distances as near as possible to the
// given ones. The two leading eigenvectors of B = -½ J D² J, by power iteration and deflation.

export interface Plane {
  x: Float64Array;
  y: Float64Array;
  stress: number; // Kruskal's: 0 where the plane holds every distance
}

const ROUNDS = 20_000;
const SETTLED = 1e-24; // squared change of the unit vector that ends the iteration

export function planeOf(D: ArrayLike<number>, n: number): Plane {
  const B = centred(D, n);
  // The shift makes every eigenvalue positive, so that the largest is also the largest in size.
  const shift = Math.max(...Array.from({ length: n }, (_, i) => B.subarray(i * n, (i + 1) * n).reduce(sizes, 0)));
  const first = leading(B, n, shift, null);
  const [x, y] = [first, leading(B, n, shift, first)].map((vector) => scaled(B, n, vector));
  return { x: x!, y: y!, stress: stressOf(D, x!, y!, n) };
}

const sizes = (sum: number, v: number): number => sum + Math.abs(v);

function centred(D: ArrayLike<number>, n: number): Float64Array {
  const B = Float64Array.from({ length: n * n }, (_, k) => -0.5 * D[k]! ** 2);
  const means = Float64Array.from(
    { length: n },
    (_, i) => B.subarray(i * n, (i + 1) * n).reduce((a, b) => a + b, 0) / n,
  );
  const whole = means.reduce((a, b) => a + b, 0) / n;
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) B[i * n + j]! += whole - means[i]! - means[j]!;
  return B;
}

function times(B: Float64Array, v: Float64Array, n: number): Float64Array {
  return v.map((_, i) => {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += B[i * n + j]! * v[j]!;
    return sum;
  });
}

const dot = (a: Float64Array, b: Float64Array): number => a.reduce((sum, v, i) => sum + v * b[i]!, 0);

function unit(v: Float64Array, without: Float64Array | null): Float64Array {
  const part = without ? dot(v, without) : 0;
  const rest = without ? v.map((value, i) => value - part * without[i]!) : v;
  const size = Math.sqrt(dot(rest, rest));
  return rest.map((value) => (size > 0 ? value / size : 0));
}

// The unit vector of the largest eigenvalue, orthogonal to `without`. It begins the same every time: a picture looks the
// same when made again.
function leading(B: Float64Array, n: number, shift: number, without: Float64Array | null): Float64Array {
  let seed = 1;
  let v = unit(
    Float64Array.from({ length: n }, () => (seed = (seed * 16807) % 2147483647) / 2147483647 - 0.5),
    without,
  );
  for (let round = 0; round < ROUNDS; round++) {
    const was = v;
    v = unit(
      times(B, was, n).map((value, i) => value + shift * was[i]!),
      without,
    );
    const change = v.map((value, i) => value - was[i]!);
    if (dot(change, change) <= SETTLED) break;
  }
  return v;
}

// A coordinate: none where there is no such dimension. The one furthest out is positive.
function scaled(B: Float64Array, n: number, vector: Float64Array): Float64Array {
  const value = dot(vector, times(B, vector, n));
  const far = vector.reduce((most, v) => (Math.abs(v) > Math.abs(most) ? v : most), 0);
  return vector.map((v) => v * Math.sqrt(Math.max(0, value)) * Math.sign(far));
}

function stressOf(D: ArrayLike<number>, x: Float64Array, y: Float64Array, n: number): number {
  let missed = 0,
    whole = 0;
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) {
      missed += (D[i * n + j]! - Math.hypot(x[i]! - x[j]!, y[i]! - y[j]!)) ** 2;
      whole += D[i * n + j]! ** 2;
    }
  return whole > 0 ? Math.sqrt(missed / whole) : 0;
}
