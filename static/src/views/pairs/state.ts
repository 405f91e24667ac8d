// The pair view's part of the state.
import { integer, oneOf, text } from "../../app/fields";
import { WISHES } from "../../maps/pairs";

export const PAIRS_FIELDS = {
  find: text(),
  near: integer(1, 1, 1 << 20), // distance from
  far: integer(0, 0, 1 << 20), // distance to; 0: no bound
  same: oneOf(WISHES, "any"),
  within: oneOf(WISHES, "any"),
  order: text("-normalized"),
};
