// Splits the cosine of two sentence vectors into a share for each token. Pooling is a sum over tokens, so the cosine is too.
import type { Embedding } from "../../../build/openapi";

type Weigh = (t: number, column: number) => number;

const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += a[k]! * b[k]!;
  return sum;
};
const lengthOf = (a: ArrayLike<number>): number => Math.sqrt(dot(a, a));

export const cosineOf = (a: ArrayLike<number>, b: ArrayLike<number>): number => dot(a, b) / (lengthOf(a) * lengthOf(b));

// The weight of a token's state in a column of the vector, for tokens `first` to n - 1.
function weightOf(way: string, states: ArrayLike<number>, n: number, width: number, first: number): Weigh {
  const pooled = n - first;
  const all = (n * (n + 1) - first * (first + 1)) / 2;
  if (way === "cls") return (t) => (t === first ? 1 : 0);
  if (way === "lasttoken") return (t) => (t === n - 1 ? 1 : 0);
  if (way === "weightedmean") return (t) => (t + 1) / all;
  if (way !== "max") return () => 1 / (way === "mean" ? pooled : Math.sqrt(pooled));
  const largest = Array.from({ length: width }, (_, column) => {
    let best = first;
    for (let t = first; t < n; t++) if (states[t * width + column]! > states[best * width + column]!) best = t;
    return best;
  });
  return (t, column) => (largest[column] === t ? 1 : 0);
}

const TOLERANCE = 1e-3; // of the sum, against the service's cosine

// One number a token; they sum to the cosine with `other`. states: [n][width], of the last layer. Null if dense layers
// stand between the tokens and the vector, because the sum then has other parts.
export function contributionsOf(
  { vector, pooling, first_token: first }: Embedding,
  states: ArrayLike<number>,
  n: number,
  other: readonly number[],
): number[] | null {
  const own = vector.map(Number);
  const width = states.length / n;
  const ways = pooling.split("+");
  if (own.length !== width * ways.length) return null;
  const weights = ways.map((way) => weightOf(way, states, n, width, first));
  const values = Array<number>(n).fill(0);
  let squares = 0;
  for (const [at, weigh] of weights.entries())
    for (let column = 0; column < width; column++) {
      let sum = 0;
      for (let t = first; t < n; t++) {
        const part = weigh(t, column) * states[t * width + column]!;
        sum += part;
        values[t]! += part * other[at * width + column]!;
      }
      squares += sum * sum;
    }
  const scale = Math.sqrt(squares) * lengthOf(other);
  const shares = values.map((value) => value / scale);
  const missing = shares.reduce((a, b) => a + b, 0) - cosineOf(own, other);
  return Math.abs(missing) <= TOLERANCE ? shares : null;
}
