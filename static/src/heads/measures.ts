// A head's maps by the measures that are chosen, and their names.
import type { Measures } from "../app/measures";
import { perObject } from "../app/per-object";
import type { Head } from "../maps/analysis";
import { maximumOf } from "../maps/scale";

// The map shown as attention.
export const attentionOf = (head: Head, { weigh }: Measures): Float32Array =>
  (weigh && head.weighted) || head.attention;

const replaced = perObject((head: Head): Head => ({ ...head, attention: head.weighted ?? head.attention }));
// The head with its weighted map as its attention, if that is chosen.
export const weighted = (head: Head, { weigh }: Measures): Head => (weigh && head.weighted ? replaced(head) : head);

// Values as fractions of the map's largest.
export const fractionsOf = perObject((map: Float32Array): Float32Array => {
  const top = maximumOf(map);
  return top > 0 ? map.map((v) => v / top) : map;
});

// Follows the name of a relation between tokens.
export const measureNote = (quantity: "attention" | "similarity", { space, weigh, center }: Measures): string =>
  quantity === "attention"
    ? weigh
      ? ", weighted by norms"
      : ""
    : (center ? ", centred" : "") + (space === "residual" ? ", residual space" : "");

export const attentionName = ({ weigh }: Measures): string => (weigh ? "Attention weighted by norms" : "Attention");
export const formulaOf = {
  attention: ({ weigh }: Measures): string => (weigh ? "A·‖f(x)‖: rows attend to columns" : "rows attend to columns"),
  similarity: ({ space, center }: Measures): string =>
    center
      ? `${space === "residual" ? "O·G·O′" : "O·O′"} of centred outputs`
      : space === "residual"
        ? "O·G·O′, as written into the hidden state"
        : "O·O′ of the head’s outputs",
};
