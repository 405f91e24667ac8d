// The targets of a head's attention, as fractions of each query's attention, mean over the queries (Clark et al. 2019),
// and its pattern in one word. Counted from the overview's bytes: what a row lost by rounding to 0 is spread
// evenly over the cells that lost it. Or taken from the service's profiles.
import type { Encoding } from "../app/answer";

export const PATTERNS = [
  "previous",
  "next",
  "self",
  "first",
  "separator",
  "punctuation",
  "repeated",
  "nearby",
  "sentence",
  "broad",
] as const;
export type Pattern = (typeof PATTERNS)[number];

export const REACH = 8; // offsets -REACH .. REACH
const NEARBY = 3; // tokens away at most

// The numbers that decide a label.
export interface Strengths {
  shares: Record<Exclude<Pattern, "broad">, number>;
  evenness: number; // entropy over that of an even spread, 0..1
  chance: Record<"sentence" | "repeated" | "nearby", number>; // what an even spread would give
}

export interface Profile extends Strengths {
  offsets: number[]; // 2 REACH + 1; mean over the queries that have such a neighbour, NaN where none has
}

// The properties that patterns distinguish, one entry a token.
export interface Kinds {
  first: number; // the leading special token, -1: none
  separator: boolean[]; // the other special tokens
  punctuation: boolean[];
  repeated: number[]; // equal for equal token values, -1 for special tokens
  sentence: number[]; // -1 for special tokens
  causal: boolean; // no token attends to later ones
}

export function kindsOf({ ids, tokens, special, sentences, causal }: Encoding): Kinds {
  const first = special[0] || causal ? 0 : -1; // causal models attend to the first token where others have a special one
  return {
    first,
    separator: special.map((s, t) => s && t !== first),
    punctuation: tokens.map((token, t) => !special[t] && /^[␣#]*\p{P}+$/u.test(token)),
    repeated: ids.map((id, t) => (special[t] ? -1 : id)),
    sentence: sentences.map((s, t) => (special[t] ? -1 : s)),
    causal,
  };
}

export function profileOf(map: Uint8Array, T: number, kinds: Kinds): Profile {
  const { first, separator, punctuation, repeated, sentence, causal } = kinds;
  const sums = Object.fromEntries(
    PATTERNS.filter((name) => name !== "broad").map((name) => [name, 0]),
  ) as Profile["shares"];
  const offsets = new Array<number>(2 * REACH + 1).fill(0);
  const columns = new Float64Array(T);
  const [repeats, sentences] = [placesOf(repeated), placesOf(sentence)];
  let entropy = 0;
  for (let i = 0; i < T; i++) {
    const end = causal ? i + 1 : T;
    const { scale, rest, spread } = rowOf(map, i * T, end);
    entropy += spread;
    addRow(columns, map, i * T, end, scale, rest);
    const within = (places: readonly number[]): readonly number[] => (causal ? places.filter((j) => j <= i) : places);
    const sumAt = (places: readonly number[]): number => sumOf(map, i * T, places, scale, rest);
    for (let j = Math.max(0, i - REACH); j < Math.min(end, i + REACH + 1); j++) offsets[j - i + REACH]! += sumAt([j]);
    sums.sentence += sumAt(within(sentences.get(sentence[i]!) ?? []));
    const all = repeats.get(repeated[i]!);
    if (all) sums.repeated += sumAt(within(all)) - sumAt([i]);
  }
  columns.forEach((sum, j) => {
    if (j === first) sums.first += sum;
    else if (separator[j]) sums.separator += sum;
    else if (punctuation[j]) sums.punctuation += sum;
  });
  sums.previous = offsets[REACH - 1]!;
  sums.self = offsets[REACH]!;
  for (let k = 1; k <= NEARBY; k++) sums.nearby += offsets[REACH - k]! + offsets[REACH + k]!;
  sums.next = offsets[REACH + 1]!;
  for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] = share(sums[name], T);
  return {
    shares: sums,
    offsets: offsets.map((sum, k) => share(sum, T - Math.abs(k - REACH))),
    evenness: share(entropy, evenEntropy(T, causal)),
    chance: chanceOf(T, kinds),
  };
}

const share = (v: number, of: number): number => (of > 0 ? v / of : NaN);

// The sum of the entropies of rows that are even.
function evenEntropy(T: number, causal: boolean): number {
  let sum = 0;
  for (let i = 0; i < T; i++) sum += Math.log(causal ? i + 1 : T);
  return sum;
}

// The shares that even rows give.
function chanceOf(T: number, { repeated, sentence, causal }: Kinds): Strengths["chance"] {
  const cells = causal ? (T * (T + 1)) / 2 : T * T; // that attention can reach
  const sides = causal ? 1 : 2;
  // Cells of pairs of one kind: of two tokens, and `own` of a token with itself.
  const pairs = (kinds: readonly number[], own: 0 | 1): number =>
    [...placesOf(kinds).values()].reduce((sum, { length: m }) => sum + (sides * m * (m - 1)) / 2 + own * m, 0);
  let nearby = 0;
  for (let k = 1; k <= NEARBY; k++) nearby += sides * Math.max(0, T - k);
  return {
    sentence: share(pairs(sentence, 1), cells),
    repeated: share(pairs(repeated, 0), cells),
    nearby: share(nearby, cells),
  };
}

// A profile as the service counts it, by name. The service calls no token of a causal model's the first, so its column of
// attention is given.
export function profileFrom(
  of: (name: string) => number,
  offsets: readonly number[],
  first: number,
  T: number,
  kinds: Kinds,
): Profile {
  let nearby = 0; // offsets are means over the queries that have such a neighbour
  for (let k = 1; k <= NEARBY; k++) if (k < T) nearby += ((offsets[REACH - k]! + offsets[REACH + k]!) * (T - k)) / T;
  return {
    shares: {
      ...{ previous: of("previous"), next: of("next"), self: of("self"), first },
      ...{ separator: of("separator"), punctuation: of("punctuation"), repeated: of("same_token") },
      ...{ nearby, sentence: of("same_sentence") },
    },
    offsets: [...offsets],
    evenness: share(of("entropy") * T, evenEntropy(T, kinds.causal)),
    chance: chanceOf(T, kinds),
  };
}

// The positions of each kind; -1 is none.
function placesOf(kinds: readonly number[]): Map<number, number[]> {
  const places = new Map<number, number[]>();
  kinds.forEach((kind, t) => {
    if (kind < 0) return;
    const known = places.get(kind);
    if (known) known.push(t);
    else places.set(kind, [t]);
  });
  return places;
}

// 1 for 0, else 0 (of what is not negative): the sign bit of v - 1, without a branch, which zeros here and there make slow.
const isZero = (v: number): number => (v - 1) >>> 31;

const logTerm = (v: number): number => (v > 0 ? v * Math.log(v) : 0);
const BYTE_TERMS = Float64Array.from({ length: 256 }, (_, v) => logTerm(v));

function addRow(columns: Float64Array, map: Uint8Array, from: number, end: number, scale: number, rest: number): void {
  for (let j = 0; j < end; j++) columns[j]! += map[from + j]! * scale + rest * isZero(map[from + j]!);
}
function sumOf(map: Uint8Array, from: number, places: readonly number[], scale: number, rest: number): number {
  let sum = 0;
  for (const j of places) sum += map[from + j]! * scale + rest * isZero(map[from + j]!);
  return sum;
}

// A row's values times scale sum to 1, with `rest` in each cell that is 0; spread: its entropy in nats.
function rowOf(map: Uint8Array, from: number, T: number): { scale: number; rest: number; spread: number } {
  let sum = 0,
    zeros = 0,
    terms = 0;
  for (let k = from; k < from + T; k++) {
    sum += map[k]!;
    zeros += isZero(map[k]!);
    terms += BYTE_TERMS[map[k]!]!;
  }
  const lost = 1 - sum / 255;
  const kept = lost > 0 && zeros > 0;
  const scale = kept ? 1 / 255 : sum > 0 ? 1 / sum : 0;
  const rest = kept ? lost / zeros : 0;
  return { scale, rest, spread: -(scale * terms + sum * logTerm(scale)) - zeros * logTerm(rest) };
}

const POSITION_LEAST = 0.5, // Clark's thresholds: one neighbour, one kind of token, entropy at 128 tokens
  KIND_LEAST = 0.6,
  BROAD_LEAST = 3.8 / Math.log(128),
  LIFT_LEAST = 1.5; // over chance, for kinds that an even spread meets often

// chance: the fraction that an even spread gives.
export const isLifted = (share: number, chance: number): boolean => share > KIND_LEAST && share > LIFT_LEAST * chance;

// The head's pattern in one word, or null when none is strong.
export function labelOf({ shares, evenness, chance }: Strengths): Pattern | null {
  const passes: Partial<Record<Pattern, number>> = {};
  for (const name of ["previous", "next", "self"] as const)
    if (shares[name] > POSITION_LEAST) passes[name] = shares[name];
  for (const name of ["first", "separator", "punctuation"] as const)
    if (shares[name] > KIND_LEAST) passes[name] = shares[name];
  if (shares.repeated > POSITION_LEAST) passes.repeated = shares.repeated;
  const best = Object.entries(passes).sort((a, b) => b[1] - a[1])[0];
  if (best) return best[0] as Pattern;
  if (evenness > BROAD_LEAST) return "broad";
  if (isLifted(shares.nearby, chance.nearby)) return "nearby";
  return isLifted(shares.sentence, chance.sentence) ? "sentence" : null;
}

// The strength of a pattern in a head, 0..1.
export const strengthOf = (profile: Strengths, pattern: Pattern): number =>
  pattern === "broad" ? profile.evenness : profile.shares[pattern];
