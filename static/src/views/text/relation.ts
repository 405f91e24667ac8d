// The relations of a token to the chosen ones.
import { isOfTarget, TARGET } from "../../heads/joint";
import { perObject } from "../../app/per-object";
import type { Head } from "../../maps/analysis";

export const RELATIONS = ["to", "from", "similar"] as const;
export type Relation = (typeof RELATIONS)[number];

export const RELATION_CHOICES = [
  { value: "similar", label: "Similar to" },
  { value: "to", label: "Attends to" },
  { value: "from", label: "Attended by" },
] as const;

export const ABOUT: Record<Relation, { title: string; quantity: "attention" | "similarity"; all: string }> = {
  to: { title: "Attends to", quantity: "attention", all: "Attention each token receives, on average. " },
  from: { title: "Attended by", quantity: "attention", all: "Each token’s attention, spread over all. " },
  similar: { title: "Similar to", quantity: "similarity", all: "Similarity of each token to all others, on average. " },
};

const KEPT = 32; // relations of one map: at most 0.5 MB for 2,048 tokens
const byMap = perObject<Float32Array, Map<string, Float64Array>>(() => new Map());

// Each entry's relation to the chosen ones, on average; to all others if none is chosen. Cached for each map,
// because without chosen tokens it reads the whole map.
export function relationOf(
  { axis, attention, normalized }: Pick<Head, "axis" | "attention" | "normalized">,
  chosen: readonly number[],
  relation: Relation,
): Float64Array {
  const map = relation === "similar" ? normalized : attention;
  const known = byMap(map);
  const key = `${relation} ${chosen.join()}`;
  const kept = known.get(key);
  if (kept) return kept;
  const { n } = axis;
  const all = Array.from({ length: n }, (_, t) => t);
  // Only tokens of the target attend in a cross head, to those of the text.
  const cross = axis.types.includes(TARGET);
  const rows = chosen.length ? chosen : all.filter((t) => !cross || isOfTarget(axis, t) === (relation === "to"));
  const out = new Float64Array(n);
  if (relation === "from") for (let u = 0; u < n; u++) for (const t of rows) out[u]! += map[u * n + t]! / rows.length;
  else for (const t of rows) for (let u = 0; u < n; u++) out[u]! += map[t * n + u]! / rows.length;
  if (known.size >= KEPT) known.clear();
  known.set(key, out);
  return out;
}
