// The look of maps, which all views share.
import { flag, oneOf, type ValuesOf } from "../app/fields";
import { addFields } from "../app/state";
import { MAPS } from "./colour";

const FIELDS = {
  positions: flag(), // beside the tokens of a map
  map: oneOf(MAPS, "ink"),
};

addFields(FIELDS);

declare module "../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
