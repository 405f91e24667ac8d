// The trace's part of the state.
import { flag, integer, oneOf } from "../../app/fields";

export const ROUTES_MOST = 40;
const WEIGHTS = ["norms", "effect", "patch"] as const;

export const TRACE_FIELDS = {
  weight: oneOf(WEIGHTS, "norms"), // what makes a route strong
  routes: integer(8, 1, ROUTES_MOST), // how many are shown
  patchmap: flag(), // what each token's state restores
  route: integer(-1, -1, ROUTES_MOST - 1), // the chosen one
};
