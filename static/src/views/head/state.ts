// The head view's part of the state. Other views share the scale, the zoom and the pinned cell.
import { flag, indices, oneOf, window, type ValuesOf } from "../../app/fields";
import { PAIR_RELATIONS } from "../../heads/between";
import { SPACES } from "../../app/measures";
import { SCALES } from "../../maps/scale";

const OVERLAYS = ["none", "mask", "regions", "pairs"] as const;
const DIAGONALS = ["paper", "on", "off"] as const; // paper: on in attention, off in similarity

export const FIELDS = {
  scale: oneOf(SCALES, "root", "Scale", {
    root: ["Root", "Square root, as in the overview: faint values show, and heads can be compared"],
    log: ["Log", "Four decades below the maximum"],
    row: ["Per row", "Each query's row to its own maximum"],
  }),
  space: oneOf(
    SPACES,
    "head",
    "Similarity in",
    { head: "the head’s space", residual: "the residual space" },
    "Residual: of the vectors the head writes into the hidden state, which do not depend on its arbitrary coordinates",
  ),
  weigh: flag(
    false,
    "Weight by norms",
    "Attention times the norm of the vector each token passes on: a column that gathers attention may pass on little",
  ),
  center: flag(
    false,
    "Centre outputs",
    "Similarity of the outputs without their mean over the text, which all tokens share",
  ),
  diag: oneOf(DIAGONALS, "paper", "Diagonal", { paper: "As in the paper" }),
  lines: flag(false, "Sentences", "Lines between sentences"),
  overlay: oneOf(OVERLAYS, "none", "Overlay", {
    mask: "Mask (Fig. 5)",
    regions: "Averaged regions (Fig. 5)",
    pairs: "High pairs",
  }),
  zoom: window, // in Head, and of the first map in Compare
  pin: indices(2), // the pinned cell, as two token positions
  sided: oneOf(["auto", "1", "0"] as const, "auto"), // lines between two columns of tokens; auto: of a short text
  // the pair ranking of the two chosen tokens
  ties: flag(),
  tie: oneOf(PAIR_RELATIONS, "to", "By", {
    to: "First attends to second",
    from: "Second attends to first",
    similar: "Similarity",
  }),
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
