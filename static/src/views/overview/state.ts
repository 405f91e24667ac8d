// The overview's part of the state.
import { flag, integer, oneOf, text } from "../../app/fields";
import { METRICS, ONLY } from "../../heads/figures";

const SHOWS = ["attention", "similarity", "both"] as const;
const DISTANCES = ["cka", "js"] as const; // of heads: by their outputs, by their maps
const PAINTS = ["pattern", "layer"] as const; // colours of the points

export const OVERVIEW_FIELDS = {
  show: oneOf(SHOWS, "both"),
  sort: oneOf(METRICS, "none"),
  down: flag(true), // largest first
  least: integer(10, 0, 1 << 20), // high pairs a head needs to be ranked by a figure about them
  tint: oneOf(METRICS, "none"),
  only: oneOf(ONLY, "all"),
  seek: text(), // heads by number or by words of their pattern
  small: flag(), // thumbnails so small that all heads are in the window
  plane: flag(), // heads as points
  distance: oneOf(DISTANCES, "cka"),
  paint: oneOf(PAINTS, "pattern"),
  column: text("head"), // the table's order; a leading minus: descending
};
