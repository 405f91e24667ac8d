// The look of maps, which all views share.
import { flag, oneOf, type ValuesOf } from "../app/fields";
import { addFields } from "../app/state";
import { MAPS } from "./colour";

const FIELDS = {
  positions: flag(false, "Positions beside tokens", "Each token of a map with its place in the text"),
  map: oneOf(MAPS, "ink", "Colours"),
};

addFields(FIELDS);

declare module "../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
