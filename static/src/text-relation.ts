// What a token can have to do with the chosen ones.
import type { Head } from "./analysis";
import type { Relation } from "./state";

export const ABOUT: Record<Relation, { title: string; quantity: "attention" | "similarity"; whole: string }> = {
  to: { title: "Attends to", quantity: "attention", whole: "Attention each token receives, on average. " },
  from: { title: "Attended by", quantity: "attention", whole: "Each token’s attention, spread over all. " },
  similar: {
    title: "Similar to",
    quantity: "similarity",
    whole: "Similarity of each token to all others, on average. ",
  },
};

// How much each entry has to do with the chosen ones, on average; without a choice, with all others.
export function relationOf(
  { axis: { n }, attention, normalized }: Pick<Head, "axis" | "attention" | "normalized">,
  chosen: readonly number[],
  relation: Relation,
): Float64Array {
  const rows = chosen.length ? chosen : Array.from({ length: n }, (_, t) => t);
  const map = relation === "similar" ? normalized : attention;
  const out = new Float64Array(n);
  for (const t of rows)
    for (let u = 0; u < n; u++) out[u]! += (relation === "from" ? map[u * n + t]! : map[t * n + u]!) / rows.length;
  return out;
}
