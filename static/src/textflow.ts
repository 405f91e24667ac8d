// The text itself with its tokens as elements in place: white space and all, special tokens as chips, what
// was cut off at the end in grey.
import type { Axis } from "./analysis";
import { h, type Child } from "./dom";
import { visible } from "./visible";

export interface Flow {
  element: HTMLElement;
  tokens: HTMLElement[];
} // one element an axis entry

// Offsets count code points; strings count UTF-16 units.
export function unitsOf(text: string): Uint32Array {
  const starts: number[] = [];
  for (let at = 0; at < text.length; at += text.codePointAt(at)! > 0xffff ? 2 : 1) starts.push(at);
  starts.push(text.length);
  return Uint32Array.from(starts);
}

export function flowOf(axis: Axis, text: string, pair: string): Flow {
  const tokens: HTMLElement[] = [];
  const paragraphs = [text, pair].map((source, type) => {
    const units = unitsOf(source);
    const parts: Child[] = [];
    let at = 0,
      any = false;
    for (let t = 0; t < axis.n; t++) {
      if (axis.types[t] !== type) continue;
      any = true;
      const [from, to] = axis.special[t]
        ? [at, at]
        : (axis.offsets[t]!.map((o) => units[o] ?? source.length) as [number, number]);
      if (from > at) parts.push(visible(source.slice(at, from)));
      const token = h(
        "span",
        {
          class: `token${axis.special[t] ? " special" : ""}${axis.unknown[t] ? " unknown" : ""}`,
          title: axis.unknown[t] ? `Not in the vocabulary: the model sees ${axis.labels[t]}` : undefined,
          "data-t": t,
        },
        axis.special[t] || to <= from ? axis.labels[t] : visible(source.slice(Math.max(from, at), to)),
      );
      tokens[t] = token;
      parts.push(token);
      at = Math.max(at, to);
    }
    if (at < source.length)
      parts.push(h("span", { class: "rest", title: "Cut off: not analysed" }, visible(source.slice(at))));
    return any || source ? h("p", {}, h("span", { class: "lines" }, parts)) : null;
  });
  return { element: h("div", { class: "flow" }, paragraphs), tokens };
}

export const tokenAt = (target: EventTarget | null): number => {
  const token = target instanceof Element ? target.closest<HTMLElement>("[data-t]") : null;
  return token ? Number(token.dataset.t) : -1;
};
