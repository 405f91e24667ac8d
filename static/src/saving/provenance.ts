// The origin that a saved file states; the same in every view.
import type { Answer } from "../app/answer";
import type { App } from "../app/app";
import { savedRequest, type AnalyzeRequest } from "../app/requests";
import { SUM, type Selection } from "../app/selection";
import { quotedTexts } from "../app/stacks";
import type { Exportable } from "./export";

const QUOTED = 80; // characters of a text in a title

// `request` is the one whose answer holds the arrays on screen.
export function madeOf(
  app: App,
  { model, sha256 }: Answer,
  name: string,
  request: AnalyzeRequest,
): Omit<Exportable, "rows"> {
  const precision = app.model(model)?.precision ?? "fp32";
  const rounded = precision === "fp32" ? "" : `, ${precision}`;
  const { stack } = request;
  const part = stack ? `${stack}-${name}` : name;
  return {
    name: `headscope-${model}-${part}`,
    title: `headscope · ${model}${rounded} (sha256 ${sha256.slice(0, 12)}) · ${part} · ${quotedTexts(request, QUOTED)}`,
    provenance: { tool: "headscope", model, model_sha256: sha256, request, page: app.address.href() },
  };
}

// The same request for a figure to print, as wide as two columns.
export const figureRequest = (request: AnalyzeRequest, figure: AnalyzeRequest["figure"]): AnalyzeRequest => ({
  ...request,
  figure: { width_mm: 170, footer: true, ...figure },
});

// A request for several heads. It names layers and heads apart, so it asks for all of those layers' heads.
export function headsRequest(
  app: App,
  selections: readonly [Selection, ...Selection[]],
  outputs: AnalyzeRequest["outputs"],
): AnalyzeRequest {
  const [first] = selections;
  if (first.head === SUM) return savedRequest(app.state, [first.layer], SUM, outputs);
  const each = (numbers: number[]): number[] => [...new Set(numbers)].sort((a, b) => a - b);
  const [layers, heads] = [each(selections.map(({ layer }) => layer)), each(selections.map(({ head }) => head))];
  return savedRequest(app.state, layers, heads, outputs);
}
