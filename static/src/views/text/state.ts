// The text view's part of the state.
import { flag, heads, indices, oneOf, type ValuesOf } from "../../app/fields";
import { METHOD_ABOUT, METHODS } from "../../passes/attribution";

export const RELATIONS = ["to", "from", "similar"] as const;
export type Relation = (typeof RELATIONS)[number];

export const LINES_MOST = 8; // heads, a colour each

export const FIELDS = {
  sel: indices(512), // chosen tokens
  relation: oneOf(RELATIONS, "to"),
  loss: flag(), // colours by the loss of each token, for causal models
  attribution: oneOf(
    ["none", ...METHODS] as const,
    "none",
    "Attribution by",
    Object.fromEntries(
      METHODS.map((method) => [method, [METHOD_ABOUT[method].name, METHOD_ABOUT[method].title] as const]),
    ),
  ), // colours by each token's contribution to the result
  notes: flag(true), // what the model says of each token, under it
  arcs: flag(true, "Lines", "High-similarity pairs, or attention when the text is coloured by it; strongest first"),
  beside: heads(LINES_MOST), // heads whose lines are drawn, beside the one on screen; none: the next of its layer
  bands: flag(false, "Segments", "Parts of the text between tokens that gather attention, coloured by cohesion"),
  sentences: flag(true, "Sentences", "A mark where a sentence begins"),
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
