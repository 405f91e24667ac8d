// The head view's part of the state. Other views share the scale, the zoom and the pinned cell.
import { flag, indices, oneOf, window, type ValuesOf } from "../../app/fields";
import { addFields } from "../../app/state";
import { PAIR_RELATIONS } from "../../heads/between";
import { SPACES } from "../../app/measures";
import { SCALES } from "../../maps/scale";

const OVERLAYS = ["none", "mask", "regions", "pairs"] as const;
const DIAGONALS = ["paper", "on", "off"] as const; // paper: on in attention, off in similarity

const FIELDS = {
  scale: oneOf(SCALES, "root"),
  space: oneOf(SPACES, "head"), // of similarities
  weigh: flag(), // attention weighted by norms
  center: flag(), // similarities of outputs without their mean over the text
  diag: oneOf(DIAGONALS, "paper"),
  lines: flag(), // sentence boundaries on the maps
  overlay: oneOf(OVERLAYS, "none"),
  zoom: window, // in Head, and of the first map in Compare
  pin: indices(2), // the pinned cell, as two token positions
  sided: flag(), // lines between two columns of tokens
  // the pair ranking of the two chosen tokens
  ties: flag(),
  tie: oneOf(PAIR_RELATIONS, "to"),
};

addFields(FIELDS);

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
