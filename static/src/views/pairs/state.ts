// The pair view's part of the state.
import { integer, oneOf, text, type ValuesOf } from "../../app/fields";
import { WISHES } from "../../maps/pairs";

export const FIELDS = {
  find: text(),
  near: integer(1, 1, 1 << 20), // distance from
  far: integer(0, 0, 1 << 20), // distance to; 0: no bound
  same: oneOf(WISHES, "any", "Same token"),
  within: oneOf(WISHES, "any", "Same sentence"),
  order: text("-normalized"),
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
