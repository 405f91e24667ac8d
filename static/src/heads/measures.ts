// The measures of a head. Attention is plain or weighted by the norm of the vectors it passes on (Kobayashi et al.
// 2020). Similarity is taken in the head's own arbitrary coordinates or in those of the hidden state, of the outputs as
// they are or without their mean over the text.
import type { AnalyzeRequest } from "../../../build/openapi";
import { perObject } from "../app/per-object";
import type { Head } from "../maps/analysis";
import { maximumOf } from "../maps/scale";

export const SPACES = ["head", "residual"] as const;
type Space = (typeof SPACES)[number];

export interface Measures {
  space: Space;
  weigh: boolean;
  center: boolean;
}
export const PLAIN: Measures = { space: "head", weigh: false, center: false };

// Returns true if similarities are of the head's space, as the overview's outputs and figures are. Both follow centring.
export const isOfHeadSpace = ({ space }: Pick<Measures, "space">): boolean => space === "head";
export const isPlain = (measures: Measures): boolean => isOfHeadSpace(measures) && !measures.weigh;

// Adds the measures to a request, which has the centring already.
export function measuredRequest(request: AnalyzeRequest, { space, weigh }: Omit<Measures, "center">): AnalyzeRequest {
  return {
    ...request,
    ...(weigh ? { outputs: [...(request.outputs ?? []), "weighted_norms"] } : {}),
    ...(space === "residual" ? { similarity_space: space } : {}),
  };
}

// The map shown as attention.
export const attentionOf = (head: Head, { weigh }: Measures): Float32Array =>
  (weigh && head.weighted) || head.attention;

const replaced = perObject((head: Head): Head => ({ ...head, attention: head.weighted ?? head.attention }));
// The head with its weighted map as its attention, if that is chosen.
export const weighted = (head: Head, { weigh }: Measures): Head => (weigh && head.weighted ? replaced(head) : head);

// Values as fractions of the map's largest.
export function fractionsOf(map: Float32Array): Float32Array {
  const top = maximumOf(map);
  return top > 0 ? map.map((v) => v / top) : map;
}

// Follows the name of a relation between tokens.
export const measureNote = (quantity: "attention" | "similarity", { space, weigh, center }: Measures): string =>
  quantity === "attention"
    ? weigh
      ? ", weighted by norms"
      : ""
    : (center ? ", centred" : "") + (space === "residual" ? ", residual space" : "");

export const attentionName = ({ weigh }: Measures): string => (weigh ? "Attention weighted by norms" : "Attention");
export const formulaOf = {
  attention: ({ weigh }: Measures): string => (weigh ? "A·‖f(x)‖: rows attend to columns" : "rows attend to columns"),
  similarity: ({ space, center }: Measures): string =>
    center
      ? `${space === "residual" ? "O·G·O′" : "O·O′"} of centred outputs`
      : space === "residual"
        ? "O·G·O′, as written into the hidden state"
        : "O·O′ of the head’s outputs",
};
