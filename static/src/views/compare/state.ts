// The comparison's part of the state: its second side.
import { flag, integer, oneOf, text, type ValuesOf } from "../../app/fields";
import { SUM } from "../../app/selection";
import { SIDES } from "../../maps/align";

const AGAINST = ["head", "text", "model", "off"] as const; // off: the same with a head switched off
const QUANTITIES = ["attention", "similarity"] as const;

export const FIELDS = {
  against: oneOf(AGAINST, "head", "Compare with", {
    head: "Another head",
    text: "Another text",
    model: "Another model",
    off: "A head switched off",
  }),
  what: oneOf(QUANTITIES, "similarity", "Map"),
  text2: text(),
  pair2: text(),
  prompt2: text(), // of the second text, as state.prompt; "": the first text's
  causes: flag(), // the heads that bring about the cosine of two texts
  model2: text(),
  matches: flag(), // heads of the other model like this one
  changes: flag(), // all heads ranked by their change
  side: oneOf(SIDES, "both"), // the map of the pinned cell
  layer2: integer(0, -1, 9999),
  head2: integer(0, SUM, 9999),
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
