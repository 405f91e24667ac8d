// Classical multidimensional scaling (Torgerson 1952): points of the plane whose distances are as near as can be to the
// given ones. The two leading eigenvectors of B = -½ J D² J, by subspace iteration: D is small and only two are needed.

export interface Plane {
  x: Float64Array;
  y: Float64Array;
  stress: number; // Kruskal's: 0 where the plane holds every distance
}

const BLOCK = 12; // vectors iterated together; those of negative eigenvalues are among them and left out
const ROUNDS = 400;
const SETTLED = 1e-9; // relative change of the two eigenvalues that ends it

export function planeOf(D: ArrayLike<number>, n: number): Plane {
  const B = centred(D, n);
  const k = Math.min(BLOCK, n);
  let Q = orthonormal(started(n, k), n, k);
  let best: { value: number; vector: Float64Array }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const Z = times(B, Q, n, k);
    const was = best;
    if (round % 5 === 4) best = leading(Q, Z, n, k);
    Q = orthonormal(Z, n, k);
    if (
      was !== best &&
      was.length &&
      best.every(({ value }, m) => Math.abs(value - was[m]!.value) <= SETTLED * Math.abs(value))
    )
      break;
  }
  const [x, y] = [0, 1].map((m) => scaled(best[m], n));
  return { x: x!, y: y!, stress: stressOf(D, x!, y!, n) };
}

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

// Vectors to begin with, the same every time: a picture looks the same when made again. [k][n]
function started(n: number, k: number): Float64Array {
  let seed = 1;
  return Float64Array.from({ length: n * k }, () => (seed = (seed * 16807) % 2147483647) / 2147483647 - 0.5);
}

function times(B: Float64Array, Q: Float64Array, n: number, k: number): Float64Array {
  const Z = new Float64Array(n * k);
  for (let v = 0; v < k; v++)
    for (let i = 0; i < n; i++) {
      let sum = 0;
      for (let j = 0; j < n; j++) sum += B[i * n + j]! * Q[v * n + j]!;
      Z[v * n + i] = sum;
    }
  return Z;
}

const dot = (A: Float64Array, a: number, B: Float64Array, b: number, n: number): number => {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += A[a * n + i]! * B[b * n + i]!;
  return sum;
};

// Gram-Schmidt, twice over; what vanishes stays 0.
function orthonormal(Z: Float64Array, n: number, k: number): Float64Array {
  const Q = Z.slice();
  for (let v = 0; v < k; v++) {
    const before = Math.sqrt(dot(Q, v, Q, v, n));
    for (let pass = 0; pass < 2; pass++)
      for (let u = 0; u < v; u++) {
        const part = dot(Q, v, Q, u, n);
        for (let i = 0; i < n; i++) Q[v * n + i]! -= part * Q[u * n + i]!;
      }
    const size = Math.sqrt(dot(Q, v, Q, v, n));
    const inverse = size > 1e-12 * before ? 1 / size : 0;
    for (let i = 0; i < n; i++) Q[v * n + i]! *= inverse;
  }
  return Q;
}

// The two largest eigenvalues within the subspace of Q (Rayleigh-Ritz), with their vectors. Z = B Q.
function leading(Q: Float64Array, Z: Float64Array, n: number, k: number): { value: number; vector: Float64Array }[] {
  const T = Float64Array.from({ length: k * k }, (_, at) => dot(Q, Math.floor(at / k), Z, at % k, n));
  const V = jacobi(T, k);
  const order = Array.from({ length: k }, (_, m) => m).sort((a, b) => T[b * k + b]! - T[a * k + a]!);
  return order.slice(0, 2).map((m) => ({
    value: T[m * k + m]!,
    vector: Float64Array.from({ length: n }, (_, i) => {
      let sum = 0;
      for (let v = 0; v < k; v++) sum += V[v * k + m]! * Q[v * n + i]!;
      return sum;
    }),
  }));
}

// Eigenvalues of a small symmetric matrix onto its diagonal; returns the vectors as columns.
function jacobi(T: Float64Array, k: number): Float64Array {
  const V = Float64Array.from({ length: k * k }, (_, at) => (at % (k + 1) ? 0 : 1));
  for (let sweep = 0; sweep < 30; sweep++)
    for (let p = 0; p < k; p++)
      for (let q = p + 1; q < k; q++) {
        const off = T[p * k + q]!;
        if (Math.abs(off) < 1e-300) continue;
        const theta = (T[q * k + q]! - T[p * k + p]!) / (2 * off);
        const t = Math.sign(theta || 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const c = 1 / Math.sqrt(t * t + 1);
        const rotate = (M: Float64Array, a: number, b: number): void => {
          const [u, v] = [M[a]!, M[b]!];
          M[a] = c * u - t * c * v;
          M[b] = t * c * u + c * v;
        };
        for (let i = 0; i < k; i++) rotate(T, i * k + p, i * k + q);
        for (let i = 0; i < k; i++) rotate(T, p * k + i, q * k + i);
        for (let i = 0; i < k; i++) rotate(V, i * k + p, i * k + q);
      }
  return V;
}

// A coordinate: none where there is no second dimension. The one furthest out is positive.
function scaled(one: { value: number; vector: Float64Array } | undefined, n: number): Float64Array {
  if (!one || !(one.value > 0)) return new Float64Array(n);
  let far = 0;
  for (const v of one.vector) if (Math.abs(v) > Math.abs(far)) far = v;
  const factor = Math.sqrt(one.value) * (far < 0 ? -1 : 1);
  return one.vector.map((v) => v * factor);
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
