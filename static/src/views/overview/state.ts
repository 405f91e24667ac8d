// The overview's part of the state.
import { flag, integer, oneOf, text, type ValuesOf } from "../../app/fields";
import { METRICS, ONLY, onlyName } from "../../heads/figures";

const SHOWS = ["attention", "similarity", "both"] as const;

export const FIELDS = {
  show: oneOf(SHOWS, "attention"),
  sort: oneOf(METRICS, "none"),
  down: flag(true), // largest first
  least: integer(10, 0, 1 << 20), // high pairs a head needs to be ranked by a figure about them
  tint: oneOf(METRICS, "none", "Colour by"),
  only: oneOf(ONLY, "all", "Pattern", Object.fromEntries(ONLY.map((name) => [name, onlyName(name)]))),
  seek: text(), // heads by number or by words of their pattern
  small: flag(true), // thumbnails so small that all heads are in the window
  column: text("head"), // the table's order; a leading minus: descending
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
