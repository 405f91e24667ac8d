// The look of maps, which all views share.
import { flag, oneOf, type ValuesOf } from "../app/fields";
import { MAPS } from "./colour";

export const FIELDS = {
  positions: flag(false, "Positions beside tokens", "Each token of a map with its place in the text"),
  map: oneOf(MAPS, "ink", "Colours"),
};

declare module "../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
