// A head's figures at every threshold of the slider, counted in one sweep over its pairs from the strongest down. A
// step of the slider then only reads a table.
import type { Summary } from "../app/answer";

const LEVELS = 100; // thresholds 0.00, 0.01 .. 1.00

// The properties that pairs are counted by. values: 0.. in order of first appearance, equal for equal tokens.
interface Tokens {
  values: ArrayLike<number>;
  firsts: ArrayLike<number>; // the position where each value comes first
  sentences: ArrayLike<number>;
}

// Counts of the pairs with N >= level / LEVELS, one number a level.
export interface Levels {
  count: Uint32Array;
  repeated: Uint32Array;
  within: Uint32Array;
  both: Uint32Array;
  distance: Float64Array;
  most: Uint32Array; // pairs that hold the commonest value
  focal: Int32Array; // the position where it comes first; -1: none
}

export function tokensOf(ids: ArrayLike<number>, sentences: ArrayLike<number>): Tokens {
  const known = new Map<number, number>();
  const firsts: number[] = [];
  const values = Array.from(ids, (id, t) => {
    if (!known.has(id)) firsts[known.size] = t;
    if (!known.has(id)) known.set(id, known.size);
    return known.get(id)!;
  });
  return { values, firsts, sentences };
}

// The pairs i < j above 0, by level: order[from[level] .. from[level + 1]] are those of one level.
function byLevel(S: Float32Array, T: number): { order: Uint32Array; from: Uint32Array } {
  let maximum = 0;
  for (let k = 0; k < S.length; k++) if (S[k]! > maximum) maximum = S[k]!;
  const level = (v: number): number => Math.min(LEVELS, Math.floor((LEVELS * v) / maximum + 1e-4));
  const from = new Uint32Array(LEVELS + 2);
  for (let i = 0; i < T; i++)
    for (let k = i * T + i + 1; k < (i + 1) * T; k++) if (S[k]! > 0) from[level(S[k]!) + 1]!++;
  for (let k = 0; k <= LEVELS; k++) from[k + 1]! += from[k]!;
  const order = new Uint32Array(from[LEVELS + 1]!);
  const at = from.slice();
  for (let i = 0; i < T; i++)
    for (let k = i * T + i + 1; k < (i + 1) * T; k++) if (S[k]! > 0) order[at[level(S[k]!)]!++] = k;
  return { order, from };
}

export function levelsOf(S: Float32Array, T: number, { values, firsts, sentences }: Tokens): Levels {
  const { order, from } = byLevel(S, T);
  const whole = (): Uint32Array => new Uint32Array(LEVELS + 1);
  const out: Levels = {
    count: whole(),
    repeated: whole(),
    within: whole(),
    both: whole(),
    distance: new Float64Array(LEVELS + 1),
    most: whole(),
    focal: new Int32Array(LEVELS + 1),
  };
  const holds = new Uint32Array(firsts.length);
  let repeated = 0,
    within = 0,
    both = 0,
    distance = 0,
    most = 0,
    focal = -1;
  const take = (value: number): void => {
    const n = ++holds[value]!;
    if (n < most || (n === most && firsts[value]! >= focal)) return;
    most = n;
    focal = firsts[value]!;
  };
  for (let level = LEVELS; level >= 0; level--) {
    for (let n = from[level]!; n < from[level + 1]!; n++) {
      const i = Math.floor(order[n]! / T),
        j = order[n]! % T;
      const same = values[i] === values[j],
        near = sentences[i] === sentences[j];
      distance += j - i;
      if (same) repeated++;
      else take(values[j]!);
      take(values[i]!);
      if (near) within++;
      if (same && near) both++;
    }
    out.count[level] = order.length - from[level]!;
    out.repeated[level] = repeated;
    out.within[level] = within;
    out.both[level] = both;
    out.distance[level] = distance;
    out.most[level] = most;
    out.focal[level] = focal;
  }
  return out;
}

type Counted = Pick<
  Summary,
  | "high_pairs"
  | "repeated_share"
  | "same_sentence_share"
  | "repeated_same_sentence_share"
  | "mean_distance"
  | "focal_position"
  | "focal_share"
>;

export function figuresAt(levels: Levels, threshold: number): Counted {
  const at = Math.min(LEVELS, Math.max(0, Math.ceil(LEVELS * threshold - 1e-6)));
  const count = levels.count[at]!;
  const share = (part: number): number | null => (count ? part / count : null);
  return {
    high_pairs: count,
    repeated_share: share(levels.repeated[at]!),
    same_sentence_share: share(levels.within[at]!),
    repeated_same_sentence_share: share(levels.both[at]!),
    mean_distance: share(levels.distance[at]!),
    focal_position: count ? levels.focal[at]! : null,
    focal_share: share(levels.most[at]!),
  };
}
