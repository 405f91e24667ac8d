// The smallest helper that makes DOM code read like the tree it builds.

export type Child = Node | string | number | null | undefined | false | Child[];
type Props = Record<string, unknown>;

function assign(node: Element, props: Props): void {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden")
      (node as unknown as Props)[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

export function append(node: Element, ...children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(node, ...child);
    else if (child !== null && child !== undefined && child !== false) node.append(child as Node | string);
  }
}

// h("button", { class: "quiet", onclick: save }, "Save")
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  append(node, ...children);
  assign(node, props);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS(SVG, tag);
  assign(node, props);
  append(node, ...children);
  return node;
}

export function replace(node: Element, ...children: Child[]): void {
  node.replaceChildren();
  append(node, ...children);
}

// A text that did not change is not touched: the page would be laid out anew.
export function write(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

// Runs at most once a frame, with the latest call's effect.
export function perFrame(work: () => void): () => void {
  let pending = 0;
  return () => {
    pending ||= requestAnimationFrame(() => {
      pending = 0;
      work();
    });
  };
}

// A labelled group of exclusive choices, as radio buttons so that arrows and screen readers work.
let groups = 0;
export interface Choice<T extends string> {
  value: T;
  label: string;
  title?: string;
}
export interface Segmented<T extends string> {
  element: HTMLElement;
  set(value: T): void;
}
export function segmented<T extends string>(
  legend: string,
  choices: readonly Choice<T>[],
  onchange: (value: T) => void,
): Segmented<T> {
  const name = `choice-${groups++}`;
  const inputs = choices.map(({ value }) =>
    h("input", {
      type: "radio",
      name,
      value,
      onchange: () => onchange(value),
    }),
  );
  const element = h(
    "fieldset",
    { class: "segmented" },
    h("legend", {}, legend),
    h(
      "div",
      {},
      choices.map(({ label, title }, n) => h("label", { title }, inputs[n], h("span", {}, label))),
    ),
  );
  return {
    element,
    set: (value) =>
      inputs.forEach((input) => {
        input.checked = input.value === value;
      }),
  };
}

// Something that is opened and closed by its title; how it stands is for `press` and the next drawing to say. The toggle
// event of <details> comes a task after the press, so that a drawing between the two would close it again.
export function disclosure(title: HTMLElement, content: readonly HTMLElement[], press: () => void): HTMLDetailsElement {
  title.addEventListener("click", (e) => {
    e.preventDefault();
    press();
  });
  return h("details", { class: "ties" }, title, ...content);
}

export interface Toggle {
  element: HTMLElement;
  set(on: boolean): void;
}
export function toggle(label: string, title: string, onchange: (on: boolean) => void): Toggle {
  const input = h("input", { type: "checkbox", onchange: () => onchange(input.checked) });
  return {
    element: h("label", { class: "toggle", title }, input, h("span", {}, label)),
    set: (on) => {
      input.checked = on;
    },
  };
}

export interface Select {
  element: HTMLElement;
  input: HTMLSelectElement;
  set(value: string): void;
}
export function select(
  label: string,
  options: readonly (readonly [string, string])[],
  onchange: (value: string) => void,
): Select {
  const input = h(
    "select",
    { onchange: () => onchange(input.value) },
    options.map(([value, text]) => h("option", { value }, text)),
  );
  return {
    element: h("label", { class: "field" }, h("span", {}, label), input),
    input,
    set: (value) => {
      input.value = value;
    },
  };
}

export interface Slider {
  element: HTMLElement;
  set(value: number): void;
}
export function slider(
  label: string,
  title: string,
  min: number,
  max: number,
  step: number,
  oninput: (value: number) => void,
): Slider {
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const output = h("output", {});
  const input = h("input", {
    type: "range",
    min,
    max,
    step,
    "aria-label": label,
    oninput: () => show(Number(input.value), true),
  });
  const show = (value: number, tell: boolean): void => {
    write(output, value.toFixed(digits));
    if (tell) oninput(value);
  };
  return {
    element: h("label", { class: "slider", title }, h("span", {}, label), output, input),
    set: (value) => {
      input.value = String(value);
      show(value, false);
    },
  };
}
