// A text that is typical of a head: its analysis, and the cell of its map that is strongest.
import type { CorpusExamples } from "../../../../build/openapi";
import type { Requested } from "../../app/requests";
import type { State } from "../../app/state";
import type { Axis, Head } from "../../maps/analysis";
import { tokensOf } from "../../maps/axis";
import { maximumOf } from "../../maps/scale";
import type { Report, Run } from "./api";
import { TYPICAL_BYS, type TypicalBy } from "./state";

export type Example = CorpusExamples["examples"][number];
export type By = Exclude<TypicalBy, "pattern">;

// Figures of attention; the others are of similarity, and the map shown is that of the figure.
const OF_ATTENTION: readonly By[] = ["separator_attention", "self", "previous", "next", "first", "syntax_attention"];
export const isOfAttention = (by: By): boolean => OF_ATTENTION.includes(by);

// Figures that compare a token with itself or its neighbours. Cross heads have none of them.
const OF_ONE_TEXT: readonly TypicalBy[] = ["self", "previous", "next"];

const OF_SYNTAX: readonly TypicalBy[] = ["syntax_attention", "syntax_similarity"];

// Those to choose from, with the chosen one of a link. The server refuses the others.
export function bysOf({ provenance, syntax }: Report, chosen: TypicalBy): readonly TypicalBy[] {
  const without = [...(provenance.options.stack === "cross" ? OF_ONE_TEXT : []), ...(syntax ? [] : OF_SYNTAX)];
  return TYPICAL_BYS.filter((by) => by === chosen || !without.includes(by));
}

// The texts as the run took them. A decoder's examples have the target as their text.
export function inputOf({ model = "" }: Run, { provenance }: Report, { body, source }: Example): Partial<State> {
  const { max_tokens, split_special_tokens, prompt_name, center, stack, source_language, target_language } =
    provenance.options;
  return {
    text: source ?? body,
    pair: "",
    ...{ stack: stack ?? "encoder", target: source === undefined ? "" : body, write: 0 },
    ...{ lang: source_language ?? "", tlang: target_language ?? "" },
    prompt: `=${prompt_name ?? ""}`,
    model,
    max: max_tokens,
    window: -1,
    literal: Boolean(split_special_tokens),
    center: center === "text",
  };
}

export function requestedOf(state: State, run: Run, report: Report, example: Example): Requested {
  const { interventions } = report.provenance.options;
  return {
    ...state,
    ...inputOf(run, report, example),
    ...(interventions?.length ? { interventions: interventions as NonNullable<Requested["interventions"]> } : {}),
  };
}

// Normalised, so that the maps of several texts compare.
export const valuesOf = (head: Head, by: By): Float32Array => (isOfAttention(by) ? head.attention : head.normalized);

export const columnsOf = (head: Head, by: By): Axis => (isOfAttention(by) ? head.columns : head.axis);

export interface Strongest {
  cell: [row: number, column: number];
  value: number;
  positions: [number, number];
  labels: [string, string];
}

// The strongest cell; of similarity, which is symmetric, its first.
export function strongestOf(head: Head, by: By): Strongest {
  const values = valuesOf(head, by);
  const columns = columnsOf(head, by);
  const at = Math.max(0, values.indexOf(maximumOf(values)));
  const [i, j] = [Math.floor(at / columns.n), at % columns.n];
  return {
    cell: [i, j],
    value: values[at] ?? NaN,
    positions: [head.axis.positions[i] ?? i, columns.positions[j] ?? j],
    labels: [head.axis.labels[i] ?? "", columns.labels[j] ?? ""],
  };
}

// The strongest cell as Head pins it. Head pins cells of attention: of a cross head none between two tokens of the target.
export function pinOfStrongest(head: Head, by: By): number[] {
  const columns = columnsOf(head, by);
  const [i, j] = strongestOf(head, by).cell;
  return columns === head.columns ? [...tokensOf(head.axis, [i]), ...tokensOf(columns, [j])] : [];
}
