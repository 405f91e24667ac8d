// The pair view's part of the state.
import { integer, oneOf, text, type ValuesOf } from "../../app/fields";
import { addFields } from "../../app/state";
import { WISHES } from "../../maps/pairs";

const FIELDS = {
  find: text(),
  near: integer(1, 1, 1 << 20), // distance from
  far: integer(0, 0, 1 << 20), // distance to; 0: no bound
  same: oneOf(WISHES, "any", "Same token"),
  within: oneOf(WISHES, "any", "Same sentence"),
  order: text("-normalized"),
};

addFields(FIELDS);

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
