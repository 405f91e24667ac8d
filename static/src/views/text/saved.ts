// Saves the text: each token with its relations, and the numbers of all heads for two chosen ones.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { measuredRequest } from "../../app/measures";
import { isCross } from "../../app/stacks";
import { isOfTarget } from "../../heads/joint";
import { pairNumbers, type EntryPair } from "../../heads/pair-ranking";
import { nameOf, type Selection } from "../../app/selection";
import type { Head } from "../../maps/analysis";
import type { Exportable } from "../../saving/export";
import { headsRequest, madeOf } from "../../saving/provenance";
import { withAttribution, type Attribution } from "../../passes/attribution";
import type { LineHead } from "./line-heads";
import { ABOUT, relationOf, RELATIONS, type Relation } from "./relation";

interface Saved {
  head: Head;
  answer: Answer;
  selection: Selection;
  lines: readonly LineHead[];
  chosen: readonly number[];
  pair: EntryPair | null;
  attribution: Attribution | null;
}

export function textExport(app: App, saved: Saved): Exportable {
  const { head, answer, selection, lines, chosen, pair, attribution } = saved;
  const { state } = app;
  const { axis } = head;
  const cross = isCross(state);
  const columns = columnsOf(saved, state.relation, cross);
  const sideOf = (t: number): string[] => (cross ? [isOfTarget(axis, t) ? "target" : "text"] : []);
  const rows = (): (string | number)[][] => [
    [...(cross ? ["side"] : []), "position", "token", "sentence", "chosen", ...columns.map(({ name }) => name)],
    ...axis.labels.map((label, t) => [
      ...sideOf(t),
      axis.positions[t] ?? t,
      label,
      axis.sentences[t] ?? "",
      String(chosen.includes(t)),
      ...columns.map(({ values }) => values[t] ?? NaN),
    ]),
  ];
  const outputs = ["attentions", "similarities", "pairs", ...(state.bands ? (["segments"] as const) : [])] as const;
  const request = measuredRequest(headsRequest(app, [selection, ...lines], [...outputs]), state);
  const attributed = attribution ? withAttribution(request, attribution) : request;
  const made = madeOf(app, answer, `text-${nameOf(selection)}`, attributed);
  return { ...made, rows, heads: pairNumbers(app, axis, pair) };
}

// A token's relations in the head on screen, and in the heads whose lines are drawn as well.
function columnsOf(
  { head, chosen, lines, attribution }: Saved,
  relation: Relation,
  cross: boolean,
): { name: string; values: Float64Array }[] {
  const relations = cross ? [relation] : RELATIONS;
  const named = (r: Relation): string => ABOUT[r].title.toLowerCase().replace(" ", "_");
  const others = lines.flatMap(({ layer, head: k, attention }) =>
    attention && attention !== head.attention
      ? [{ name: `${named(relation)}_l${layer}_h${k}`, values: relationOf({ ...head, attention }, chosen, relation) }]
      : [],
  );
  const attributed = attribution ? [{ name: attribution.method, values: attribution.values }] : [];
  return [...relations.map((r) => ({ name: named(r), values: relationOf(head, chosen, r) })), ...others, ...attributed];
}
