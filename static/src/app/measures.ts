// The measures of a head. Attention is plain or weighted by the norm of the vectors it passes on (Kobayashi et al.
// 2020). Similarity is taken in the head's own arbitrary coordinates or in those of the hidden state, of the outputs as
// they are or without their mean over the text.
import type { AnalyzeRequest } from "../../../build/openapi";

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
