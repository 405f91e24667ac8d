// The effects of all heads on the number watched as a gradient estimates them, and exact ones in their place on request.
import type { Effect } from "../../../build/openapi";
import type { Answer, JsonAnswer } from "../app/answer";
import type { Problem } from "../app/api";
import type { App } from "../app/app";
import type { Entry } from "../app/cache";
import { canRetry } from "../app/problems";
import { effectsRequest, estimatesRequest } from "../app/requests";
import type { Selection } from "../app/selection";
import { effectsOf, type Effects } from "./effects";
import type { Target } from "./target";

export interface Estimates {
  rows: Effects["rows"];
  estimate: Entry<JsonAnswer>; // of all heads
  refused: Problem | null; // why the service has no estimate
  exact: Effects | null; // of all heads, a layer at a time; null: not requested
  waiting: Entry<JsonAnswer> | null; // the exact effect of one head that is not here
}

// `at`: as in effectsOf(). `exactly`: the heads whose exact effects are requested. Where the estimate is refused, all are.
export function estimatesOf(
  app: App,
  answer: Answer,
  at: number | null,
  target: Target,
  exactly: "all" | readonly Selection[],
): Estimates {
  const estimate = app.jsonCache.want(estimatesRequest(app.state, target.request));
  const estimated = estimate.answer?.effects ?? [];
  const { problem } = estimate;
  const refused = problem && !canRetry(problem.status) ? problem : null;
  if (exactly === "all" || refused) {
    const exact = effectsOf(app, answer, at, target);
    const rows = exact.rows.map((row, l) => row ?? estimated[l] ?? null);
    return { rows, estimate, refused, exact, waiting: null };
  }
  const rows: (readonly Effect[] | null)[] = answer.layers.map((_, l) => estimated[l] ?? null);
  let waiting: Entry<JsonAnswer> | null = null;
  for (const { layer, head } of exactly) {
    const entry = app.jsonCache.want(effectsRequest(app.state, layer, at, target.request, [head]));
    const [effect] = entry.answer?.effects?.[0] ?? [];
    if (effect) rows[layer] = rows[layer]?.map((other, h) => (h === head ? effect : other)) ?? null;
    else waiting ??= entry;
  }
  return { rows, estimate, refused, exact: null, waiting };
}
