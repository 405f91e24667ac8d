// The trace's part of the state.
import { flag, integer, oneOf, type ValuesOf } from "../../app/fields";

export const ROUTES_MOST = 40;
const WEIGHTS = ["norms", "effect", "patch"] as const;

export const FIELDS = {
  weight: oneOf(WEIGHTS, "norms", "A route is strong by", {
    norms: ["Attention × norm", "The fraction of each state that the head hands on"],
    effect: ["Attention × effect", "The change of the result with the head switched off"],
    patch: ["Attention × patching", "What the head restores of a second text’s result"],
  }),
  fold: oneOf(["auto", "on", "off"] as const, "auto"), // auto: where all layers are too high for a window
  routes: integer(8, 1, ROUTES_MOST), // how many are shown
  patchmap: flag(), // what each token's state restores
  patchtext: flag(), // the same of the states of the text that a decoder reads
  route: integer(-1, -1, ROUTES_MOST - 1), // the chosen one
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
