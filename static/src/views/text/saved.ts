// Saves the text: each token with its relations, and the numbers of all heads for two chosen ones.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { measuredRequest } from "../../app/measures";
import type { AnalyzeRequest } from "../../app/requests";
import { isCross } from "../../app/stacks";
import { isOfTarget } from "../../heads/joint";
import { pairNumbers, type EntryPair } from "../../heads/pair-ranking";
import { nameOf, type Selection } from "../../app/selection";
import type { Exportable } from "../../saving/export";
import { headsRequest, madeOf } from "../../saving/provenance";
import { withAttribution, type Attribution } from "../../passes/attribution";
import { isSame, type LineHead } from "./line-heads";
import { ABOUT, partRequest, relationOf, type Rows } from "./rows";
import { RELATIONS, type Relation } from "./state";

interface Saved {
  rows: Rows;
  long: boolean; // of the axis, whose maps are not here
  answer: Answer;
  selection: Selection;
  lines: readonly LineHead[];
  chosen: readonly number[];
  pair: EntryPair | null;
  attribution: Attribution | null;
}

// Null while there is nothing to save.
export function textExport(app: App, saved: Saved): Exportable | null {
  const { long, answer, selection, chosen, pair, attribution } = saved;
  const { state } = app;
  const { axis } = saved.rows;
  const cross = isCross(state);
  const columns = columnsOf(saved, state.relation, cross);
  if (!columns.length) return null;
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
  const request = long ? partsRequest(app, saved) : wholeRequest(app, saved);
  const attributed = attribution ? withAttribution(request, attribution) : request;
  const made = madeOf(app, answer, `text-${nameOf(selection)}`, attributed);
  return { ...made, rows, heads: pairNumbers(app, axis, pair) };
}

// The row or column of the token that was chosen first, in all heads of the table.
function partsRequest(app: App, { rows, selection, lines, chosen }: Saved): AnalyzeRequest {
  const { state } = app;
  const { layers, heads } = headsRequest(app, [selection, ...lines], []);
  const part = partRequest(state, selection, chosen[0] ?? 0, rows.axis.n, state.relation === "from");
  return { ...part, ...(layers && { layers }), ...(heads && { heads }) };
}

function wholeRequest(app: App, { selection, lines }: Saved): AnalyzeRequest {
  const outputs = ["attentions", "similarities", "pairs", ...(app.state.bands ? (["segments"] as const) : [])] as const;
  return measuredRequest(headsRequest(app, [selection, ...lines], [...outputs]), app.state);
}

// A token's relations in the head on screen, and in the heads whose lines are drawn as well.
function columnsOf(
  { rows, selection, chosen, lines, attribution }: Saved,
  shown: Relation,
  cross: boolean,
): { name: string; values: Float64Array }[] {
  const named = (relation: Relation): string => ABOUT[relation].title.toLowerCase().replace(" ", "_");
  const column = (of: Rows | null, relation: Relation, more = ""): { name: string; values: Float64Array }[] => {
    const values = of && relationOf(of, chosen, relation);
    return values ? [{ name: named(relation) + more, values }] : [];
  };
  return [
    ...(cross ? [shown] : RELATIONS).flatMap((relation) => column(rows, relation)),
    ...lines.flatMap((line) =>
      isSame(line, selection) ? [] : column(line.rows, shown, `_l${line.layer}_h${line.head}`),
    ),
    ...(attribution ? [{ name: attribution.method, values: attribution.values }] : []),
  ];
}
