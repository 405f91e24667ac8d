// The trace's part of the state.
import { flag, integer, oneOf, type ValuesOf } from "../../app/fields";
import { addFields } from "../../app/state";

export const ROUTES_MOST = 40;
const WEIGHTS = ["norms", "effect", "patch"] as const;

const FIELDS = {
  weight: oneOf(WEIGHTS, "norms"), // what makes a route strong
  routes: integer(8, 1, ROUTES_MOST), // how many are shown
  patchmap: flag(), // what each token's state restores
  route: integer(-1, -1, ROUTES_MOST - 1), // the chosen one
};

addFields(FIELDS);

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
