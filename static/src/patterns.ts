// Where a head's attention goes, in shares of each query's attention, mean over the queries (Clark et al. 2019), and
// the one word that says it best. Counted from the overview's bytes: what a row lost by rounding to 0 is spread
// evenly over the cells that lost it.
import type { Encoding } from "./answer";

export const PATTERNS = [
  "previous",
  "next",
  "self",
  "first",
  "separator",
  "punctuation",
  "repeated",
  "sentence",
  "broad",
] as const;
export type Pattern = (typeof PATTERNS)[number];

export const REACH = 8; // offsets -REACH .. REACH

export interface Profile {
  shares: Record<Exclude<Pattern, "broad">, number>;
  offsets: number[]; // 2 REACH + 1; mean over the queries that have such a neighbour, NaN where none has
  entropy: number; // nats, mean over rows
  evenness: number; // entropy over that of an even spread, 0..1
  chance: { sentence: number; repeated: number }; // what an even spread would give
}

// What tokens are told apart by, one entry a token.
export interface Kinds {
  first: number; // the leading special token, -1: none
  separator: boolean[]; // the other special tokens
  punctuation: boolean[];
  repeated: number[]; // equal for equal token values, -1 for special tokens
  sentence: number[]; // -1 for special tokens
}

export function kindsOf({ ids, tokens, special, sentences }: Encoding): Kinds {
  const first = special[0] ? 0 : -1;
  return {
    first,
    separator: special.map((s, t) => s && t !== first),
    punctuation: tokens.map((token, t) => !special[t] && /^[␣#]*\p{P}+$/u.test(token)),
    repeated: ids.map((id, t) => (special[t] ? -1 : id)),
    sentence: sentences.map((s, t) => (special[t] ? -1 : s)),
  };
}

export function profileOf(map: ArrayLike<number>, T: number, unit: number, kinds: Kinds): Profile {
  const { first, separator, punctuation, repeated, sentence } = kinds;
  const sums = { previous: 0, next: 0, self: 0, first: 0, separator: 0, punctuation: 0, repeated: 0, sentence: 0 };
  const chance = { sentence: 0, repeated: 0 };
  const offsets = new Array<number>(2 * REACH + 1).fill(0);
  let entropy = 0;
  for (let i = 0; i < T; i++) {
    const { scale, rest } = rowOf(map, i * T, T, unit);
    for (let j = 0; j < T; j++) {
      const value = map[i * T + j]!;
      const a = value ? value * scale : rest;
      const offset = j - i;
      if (a > 0) entropy -= a * Math.log(a);
      if (offset >= -REACH && offset <= REACH) offsets[offset + REACH]! += a;
      if (j === first) sums.first += a;
      else if (separator[j]) sums.separator += a;
      else if (punctuation[j]) sums.punctuation += a;
      if (sentence[i]! >= 0 && sentence[i] === sentence[j]) ((sums.sentence += a), chance.sentence++);
      if (offset && repeated[i]! >= 0 && repeated[i] === repeated[j]) ((sums.repeated += a), chance.repeated++);
    }
  }
  sums.previous = offsets[REACH - 1]!;
  sums.self = offsets[REACH]!;
  sums.next = offsets[REACH + 1]!;
  const share = (v: number, of: number): number => (of > 0 ? v / of : NaN);
  for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] = share(sums[name], T);
  return {
    shares: sums,
    offsets: offsets.map((sum, k) => share(sum, T - Math.abs(k - REACH))),
    entropy: share(entropy, T),
    evenness: share(entropy, T * Math.log(T)),
    chance: { sentence: share(chance.sentence, T * T), repeated: share(chance.repeated, T * T) },
  };
}

// A row's values times scale sum to 1, with `rest` in each cell that is 0.
function rowOf(map: ArrayLike<number>, from: number, T: number, unit: number): { scale: number; rest: number } {
  let sum = 0,
    zeros = 0;
  for (let k = from; k < from + T; k++) ((sum += map[k]!), (zeros += map[k] ? 0 : 1));
  sum *= unit;
  if (sum < 1 && zeros) return { scale: unit, rest: (1 - sum) / zeros };
  return { scale: sum > 0 ? unit / sum : 0, rest: 0 };
}

const POSITION_LEAST = 0.5, // Clark's thresholds: one neighbour, one kind of token, entropy at 128 tokens
  KIND_LEAST = 0.6,
  BROAD_LEAST = 3.8 / Math.log(128),
  LIFT_LEAST = 1.5; // over chance, for kinds that an even spread meets often

// chance: the share that an even spread gives.
export const isOfSentence = (share: number, chance: number): boolean => share > KIND_LEAST && share > LIFT_LEAST * chance;

// The head's pattern in one word, or null when none is strong.
export function labelOf({ shares, evenness, chance }: Profile): Pattern | null {
  const passes: Partial<Record<Pattern, number>> = {};
  for (const name of ["previous", "next", "self"] as const)
    if (shares[name] > POSITION_LEAST) passes[name] = shares[name];
  for (const name of ["first", "separator", "punctuation"] as const)
    if (shares[name] > KIND_LEAST) passes[name] = shares[name];
  if (shares.repeated > POSITION_LEAST) passes.repeated = shares.repeated;
  const best = Object.entries(passes).sort((a, b) => b[1] - a[1])[0];
  if (best) return best[0] as Pattern;
  if (evenness > BROAD_LEAST) return "broad";
  return isOfSentence(shares.sentence, chance.sentence) ? "sentence" : null;
}

// How much of a pattern a head has, 0..1.
export const strengthOf = (profile: Profile, pattern: Pattern): number =>
  pattern === "broad" ? profile.evenness : profile.shares[pattern];
