// Saves an experiment: its figures as a table, the requests of both passes, and its predictions as a figure to print.
import type { Prediction } from "../../../../build/openapi";
import type { Answer, JsonAnswer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Selection } from "../../app/selection";
import { guessesOf, LISTED } from "../../ui/likeliest";
import { figureRequest, madeOf } from "../../saving/provenance";
import type { Exportable } from "../../saving/export";
import { doesOf, type Edit } from "../../passes/interventions";
import type { HeadTint } from "../../passes/tones";
import { savedRequest, type AnalyzeRequest, type Requested } from "../../app/requests";

interface Parts {
  answer: Answer;
  outcome: { before: JsonAnswer; after: JsonAnswer | null; edits: readonly Edit[] };
  selection: Selection;
  tint: HeadTint | null;
  lens: readonly Prediction[]; // none, before alone, or both sides
}

export function experimentExport(
  app: App,
  parts: Parts,
  changed: Requested,
  { at, most }: { at: number; most: number },
  name: string,
): Exportable {
  const { selection, answer, outcome, lens } = parts;
  const ask = (requested: Requested, top_k = most): AnalyzeRequest => ({
    ...savedRequest(requested, [selection.layer], selection.head, [
      ...(["attentions", "similarities", "head_outputs", "hidden_states"] as const),
      ...(most ? (["predictions"] as const) : []),
    ]),
    ...(most ? { predictions: { positions: at < 0 ? ("masked" as const) : [at], top_k, lens: lens.length > 0 } } : {}),
  });
  const made = madeOf(app, answer, name, ask(app.state));
  const second = outcome.edits.length ? { second: ask(changed) } : {};
  return {
    ...made,
    provenance: { ...made.provenance, ...second },
    figure:
      Boolean(outcome.before.predictions?.length) &&
      figureRequest(ask(changed, Math.min(most, LISTED)), { kind: lens.length ? "lens" : "predictions" }),
    rows: () => rowsOf(parts),
  };
}

// Long: one figure a row.
function rowsOf({ outcome: { before, after, edits }, answer, tint, lens }: Parts): (string | number)[][] {
  const rows: (string | number)[][] = [["figure", "layer", "head", "position", "token", "before", "after"]];
  for (const edit of edits) {
    const name = `intervention${edit.stack ? ` of ${edit.stack}` : ""}: ${doesOf(edit)}`;
    rows.push([name, edit.layer, edit.head, "", "", "", ""]);
  }
  const { tokens } = answer.encoding;
  for (const one of before.predictions ?? []) {
    const other = after?.predictions?.find(({ position }) => position === one.position) ?? null;
    for (const { token, before: was, after: is } of guessesOf(one, other, one.top.length))
      rows.push(["probability", "", "", one.position, token, was?.probability ?? "", is?.probability ?? ""]);
  }
  const { changes } = after ?? {};
  for (const name of ["attentions", "similarities"] as const)
    changes?.[name].forEach((row, l) =>
      row.forEach((value, h) => rows.push([`change of ${name}`, l, h, "", "", "", value ?? ""])),
    );
  changes?.hidden.forEach((row, l) =>
    row.forEach((value, t) => rows.push(["change of state", l - 1, "", t, tokens[t] ?? "", "", value ?? ""])),
  );
  lens.forEach(({ position, layers = [] }, side) =>
    layers.forEach(({ top }, l) =>
      top.forEach(({ token, probability }) =>
        rows.push([
          "lens: probability",
          l - 1,
          "",
          position,
          token,
          ...(side ? ["", probability ?? ""] : [probability ?? "", ""]),
        ]),
      ),
    ),
  );
  const effects = tint && !/^Change/.test(tint.bar.label) ? tint.values : [];
  effects.forEach((row, l) =>
    row.forEach((value, h) => {
      const name = `${tint?.bar.label.toLowerCase() ?? ""}${tint?.estimated(l, h) ? ", estimate" : ""}`;
      rows.push([name, l, h, "", "", "", value ?? ""]);
    }),
  );
  return rows;
}
