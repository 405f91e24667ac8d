// The chosen layer and head, as far as a model has them.
import type { Answer, Summary } from "./answer";
import type { Model } from "../../../build/openapi";

export const SUM = -1; // head: the layer's heads summed (the paper's Fig. 12)

export interface Selection {
  layer: number;
  head: number;
}
export interface Shape {
  layers: number;
  heads: number;
}

export const nameOf = ({ layer, head }: Selection): string => `l${layer}-${head === SUM ? "sum" : `h${head}`}`;
export const titleOf = ({ layer, head }: Selection): string =>
  `Layer ${layer} · ${head === SUM ? "all heads" : `head ${head}`}`;

// The numbers of layers and heads, from the answer or from what the server's list says; null before either is here.
export function shapeOf(answer: Answer | null, model: Model | undefined, stack = "encoder"): Shape | null {
  if (answer) return { layers: answer.layers.length, heads: answer.heads.length };
  const known = model?.stacks[stack] ?? model;
  return known ? { layers: known.num_layers, heads: known.num_heads } : null;
}

const PAIRS_LEAST = 10; // a d′ of fewer high pairs says little

// The head whose high pairs separate best (largest d′). Heads with few of them count only if all have few; null if none
// has a d′.
export function tellingHead(summary: readonly (readonly Summary[])[], least = PAIRS_LEAST): Selection | null {
  let [best, most]: [Selection | null, number] = [null, -Infinity];
  summary.forEach((row, layer) =>
    row.forEach(({ snr_dprime, high_pairs }, head) => {
      if (snr_dprime === null || snr_dprime <= most || high_pairs < least) return;
      [best, most] = [{ layer, head }, snr_dprime];
    }),
  );
  return best ?? (least > 0 ? tellingHead(summary, 0) : null);
}

// Layer -1 is the last. Numbers the model lacks become its last.
export function withinShape({ layer, head }: Selection, shape: Shape | null): Selection {
  const { layers, heads } = shape ?? { layers: Infinity, heads: Infinity };
  return {
    layer: layer < 0 ? (shape ? layers - 1 : -1) : Math.min(layer, layers - 1),
    head: head === SUM ? SUM : Math.min(head, heads - 1),
  };
}
