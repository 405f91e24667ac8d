// The corpus view's part of the state: two runs and what is shown of them.
import { flag, fraction, oneOf, text } from "../../app/fields";
import { ONLY } from "../../heads/figures";
import { BYS, RUN_FIGURE_NAMES } from "./figures";

export const CORPUS_FIELDS = {
  run: text(), // default: the newest that is done
  run2: text(), // default: the one before; "-": none
  level: fraction(0.3), // one of the runs' thresholds
  by: oneOf(BYS, "layers"),
  figure: oneOf(RUN_FIGURE_NAMES, "repeated_share"),
  rank: text("place"),
  runheads: flag(), // the patterns of all heads over the first run
  runonly: oneOf(ONLY, "all"),
  runseek: text(),
  runcolumn: text("-previous"),
};
