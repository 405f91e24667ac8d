// The corpus view's part of the state: the runs compared and what is shown of them.
import { flag, fraction, oneOf, text, type ValuesOf } from "../../app/fields";
import { PATTERN_NAMES } from "../../heads/figures";
import { PATTERNS } from "../../heads/patterns";

// A text is typical of a head by the head's own pattern, or by a figure that the server keeps texts for.
export const TYPICAL_BYS = [
  "pattern",
  "repeated_share",
  "same_sentence_share",
  "mean_distance",
  "focal_share",
  "high_pairs",
  "separator_attention",
  "self",
  "previous",
  "next",
  "first",
  "syntax_attention",
  "syntax_similarity",
] as const;
export type TypicalBy = (typeof TYPICAL_BYS)[number];

// Reports have a number of each of these.
export const RUN_PATTERNS = PATTERNS.filter((name) => name !== "nearby");
export type RunPattern = (typeof RUN_PATTERNS)[number];

export const RUN_PATTERN_NAMES = { ...PATTERN_NAMES, broad: "entropy" };
const MAP_OF = oneOf(RUN_PATTERNS, "previous", "Map of", RUN_PATTERN_NAMES);

export const FIELDS = {
  run: text(), // default: the newest that is done
  run2: text(), // default: the one before; "-": none
  runs: text(), // more runs, separated by dots
  level: fraction(0), // one of the runs' thresholds; 0: the first run's main one
  figure: text(), // a name of the comparison's; "": the first
  runheads: flag(), // the patterns of all heads over the first run
  runseek: text(), // a place or a label in their table
  runcolumn: { ...MAP_OF, parse: (t: string) => MAP_OF.parse(t.replace(/^-/, "")) }, // "-" in earlier links: downwards
  runpruning: flag(true), // how the loss rises as heads go
  runlabels: flag(true), // what a run of labelled texts found
  runlabel: text(), // the label whose heads are mapped; "": the first with effects
  typical: flag(), // one head on its most typical texts of the first run
  typicalby: oneOf(TYPICAL_BYS, "pattern", "Typical by"),
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
