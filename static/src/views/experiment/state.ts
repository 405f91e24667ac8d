// The experiment's part of the state.
import { flag, heads, integer, oneOf, text, within, type Field, type ValuesOf } from "../../app/fields";
import { formatEdits, KIND_NAMES, KINDS, parseEdits, type Edit } from "../../passes/interventions";
import { TONES } from "../../passes/tones";

const edits: Field<readonly Edit[]> = { initial: [], parse: parseEdits, format: formatEdits };

export const EXACT_MOST = 32;
export const FACTOR_MOST = 100; // of scale, up or down

export const FIELDS = {
  edits, // what is changed in which heads
  kind: oneOf(
    KIND_NAMES,
    "zero",
    "Clicking a head will",
    Object.fromEntries(KIND_NAMES.map((kind) => [kind, [KINDS[kind].name, KINDS[kind].title] as const])),
  ),
  factor: within(0.5, -FACTOR_MOST, FACTOR_MOST),
  at: integer(-1, -1, 9999), // the token that is predicted; -1: every [MASK]
  depth: integer(-1, -1, 9999), // the layer after which tokens are compared; -1: the last
  tone: oneOf(["auto", ...TONES] as const, "auto"), // the colours of the heads; auto: their effect until one is changed
  watched: text(), // the class whose logit the effects follow; "": the predicted one
  exact: heads(EXACT_MOST), // the heads whose effect is computed, not estimated
  exactly: flag(false, "Compute exactly", "Switches off every head, one by one, in place of the estimates"),
  lens: flag(),
  lensed: oneOf(["one", "all"] as const, "one", "Lens of", { one: "the predicted token", all: "all tokens" }),
  lensSide: oneOf(["before", "after"] as const, "after", "Shown"),
  lensFrom: integer(0, 0, 1 << 20), // the first token of all that are shown
};

declare module "../../app/state" {
  interface State extends ValuesOf<typeof FIELDS> {}
}
