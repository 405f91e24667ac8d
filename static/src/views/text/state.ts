// The text view's part of the state.
import { flag, heads, indices, oneOf } from "../../app/fields";
import { RELATIONS } from "./relation";

export const BESIDE_MOST = 7;

export const TEXT_FIELDS = {
  sel: indices(512), // chosen tokens
  relation: oneOf(RELATIONS, "similar"),
  loss: flag(), // colours by the loss of each token, for causal models
  notes: flag(true), // what the model says of each token, under it
  arcs: flag(true),
  beside: heads(BESIDE_MOST), // heads whose lines are drawn as well
  bands: flag(),
  sentences: flag(true),
};
