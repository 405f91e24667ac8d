// How a head is measured: its attention as it is, or weighed by the norm of what each token hands on (Kobayashi et al.
// 2020); its similarities in its own coordinates, which are arbitrary, or as it writes into the hidden state.
import type { AnalyzeRequest } from "../../build/openapi";
import type { Head } from "./analysis";
import type { App } from "./app";
import { select, toggle } from "./dom";
import { maximumOf } from "./scale";
import type { Space, State } from "./state";

export type Measures = Pick<State, "space" | "weigh">;
export const PLAIN: Measures = { space: "head", weigh: false };

export const isPlain = ({ space, weigh }: Measures): boolean => space === "head" && !weigh;

// What they add to a request.
export function measuredRequest(request: AnalyzeRequest, { space, weigh }: Measures): AnalyzeRequest {
  return {
    ...request,
    ...(weigh ? { outputs: [...request.outputs!, "weighted_norms"] } : {}),
    ...(space === "residual" ? { similarity_space: space } : {}),
  };
}

// The map shown as attention.
export const attentionOf = (head: Head, { weigh }: Measures): Float32Array => (weigh && head.weighted) || head.attention;

// The head with that map in attention's place; shares: of its largest.
const replaced = new WeakMap<Head, Head>();
export function weighed(head: Head, measures: Measures): Head {
  if (!measures.weigh || !head.weighted) return head;
  let other = replaced.get(head);
  if (!other) replaced.set(head, (other = { ...head, attention: head.weighted }));
  return other;
}
export function sharesOf(map: Float32Array): Float32Array {
  const top = maximumOf(map);
  return top > 0 ? map.map((v) => v / top) : map;
}

// What is said beside the names of relations between tokens.
export const measureNote = (quantity: "attention" | "similarity", { space, weigh }: Measures): string =>
  quantity === "attention" ? (weigh ? ", weighed by norms" : "") : space === "residual" ? ", residual space" : "";

export const attentionName = ({ weigh }: Measures): string => (weigh ? "Attention weighed by norms" : "Attention");
export const formulaOf = {
  attention: ({ weigh }: Measures): string => (weigh ? "A·‖f(x)‖: rows attend to columns" : "rows attend to columns"),
  similarity: ({ space }: Measures): string =>
    space === "residual" ? "O·G·O′, as written into the hidden state" : "O·O′ of the head’s outputs",
};

export interface MeasureControls {
  elements: HTMLElement[];
  update(): void;
}

export function measureControls(app: App): MeasureControls {
  const space = select(
    "Similarity in",
    [
      ["head", "the head’s space"],
      ["residual", "the residual space"],
    ],
    (value) => app.set({ space: value as Space }),
  );
  space.element.title = "Residual: of what the head writes into the hidden state, which does not depend on its arbitrary coordinates";
  const weigh = toggle("Weigh by norms", "Attention times the norm of what the token hands on: a column that gathers attention may hand on little", (on) => app.set({ weigh: on }));
  return {
    elements: [weigh.element, space.element],
    update: () => {
      space.set(app.state.space);
      weigh.set(app.state.weigh);
    },
  };
}
