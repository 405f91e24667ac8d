// Reports the parts of a link that cannot be shown.
import { isTooLong, WHOLE_MOST, type Answer } from "./answer";
import { SUM } from "./selection";
import type { State } from "./state";

export const CHECKSUM = 12; // digits of a checksum in a link

// One sentence for each field of the link that could not be read or that the model lacks; "" for none.
export function missingIn(state: State, unread: readonly string[], answer: Answer): string {
  const { model, sha256, layers, heads, encoding } = answer;
  const { layer, head, layer2, head2, view, against, beside, edits, exact, at, depth } = state;
  const second = view === "compare" && (against === "head" || against === "off");
  const lacks = (name: string, requested: readonly number[], has: number, owner: string, then: string): string[] => {
    const beyond = requested.find((n) => n >= has);
    return beyond === undefined
      ? []
      : [`The address names ${name} ${beyond}; ${owner} has ${has} ${name}s, counted from 0. ${then}`];
  };
  const [last, ignored] = ["The last is shown instead.", "It is ignored."];
  const pairsOf = (heads: State["beside"]) => heads.map(([layer, head]) => ({ layer, head }));
  const chosen = (pairs: readonly { layer: number; head: number }[]): string[] => {
    const all = (of: "layer" | "head"): number[] => pairs.map((pair) => pair[of]);
    return [
      ...lacks("layer", all("layer"), layers.length, model, ignored),
      ...lacks("head", all("head"), heads.length, model, ignored),
    ];
  };
  const other = state.sha !== "" && sha256 !== "" && !sha256.startsWith(state.sha);
  return [
    ...(other
      ? [
          `The link was made with other weights of ${model} (checksum ${state.sha}; here ${sha256.slice(0, CHECKSUM)}), so figures differ.`,
        ]
      : []),
    ...unread.map((name) => `Ignored “${name}” in the link: unknown value.`),
    ...lacks(
      "layer",
      [layer, ...(second ? [layer2] : []), ...(view === "experiment" ? [depth] : [])],
      layers.length,
      model,
      last,
    ),
    ...lacks("head", second ? [head, head2] : [head], heads.length, model, last),
    ...(head === SUM && isTooLong(answer)
      ? [`Heads are summed for texts of at most ${WHOLE_MOST.toLocaleString("en")} tokens. Head 0 is shown instead.`]
      : []),
    ...(view === "experiment"
      ? [
          ...chosen([...edits.filter(({ stack }) => !stack), ...pairsOf(exact)]),
          ...lacks("token", [at], encoding.ids.length, "the text", ignored),
        ]
      : []),
    ...(view === "text" ? chosen(pairsOf(beside)) : []),
  ].join(" ");
}
