// Makes elements where no component does: the report's page, canvases, drawings.

type Child = Node | string | number | null | undefined | false | Child[];
type Props = Record<string, unknown>;

function assign(node: Element, props: Props): void {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden")
      (node as unknown as Props)[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value as string | number));
  }
}

function append(node: Element, ...children: Child[]): void {
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

// A canvas that can be drawn finer draws itself with as many pixels in a CSS pixel as the detail of this event says.
export const FINENESS = "fineness";

const APART = 4; // CSS px from the box's edge

// Scrolls a box just enough for one of its elements to be in sight. scrollIntoView() would move the page, too.
export function scrollTo(box: Element, element: Element): void {
  const [all, one] = [box.getBoundingClientRect(), element.getBoundingClientRect()];
  const beyond = (low: number, high: number): number => Math.min(low - APART, 0) + Math.max(high + APART, 0);
  box.scrollLeft += beyond(one.left - all.left, one.right - all.right);
  box.scrollTop += beyond(one.top - all.top, one.bottom - all.bottom);
}
