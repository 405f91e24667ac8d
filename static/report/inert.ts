// Panels of another file, of which nobody knows who wrote it: only what draws and tabulates comes through. They are
// parsed in a document that runs and loads nothing, and what is left is moved, never written out and read again.

const ELEMENTS = new Set(
  (
    "svg g image line lineargradient path rect circle stop text tspan title " +
    "table thead tbody tr th td div span p br details summary a"
  ).split(" "),
);
const ATTRIBUTES = new Set(
  (
    "class id role scope aria-label data-map data-range data-head viewbox width height x y x1 x2 y1 y2 cx cy r d offset fill " +
    "stroke stroke-width stroke-dasharray stop-color font-family font-size font-weight text-anchor transform paint-order " +
    "preserveaspectratio href style"
  ).split(" "),
);

// Addresses lead nowhere but into the page; pictures are within it.
function isInert(name: string, value: string): boolean {
  if (name === "href") return /^(#|data:image\/png;base64,)/.test(value);
  if (name === "style") return value === "image-rendering: pixelated";
  return ATTRIBUTES.has(name) && (!/url\s*\(/i.test(value) || /^url\(#[\w:-]+\)$/.test(value));
}

export function inert(html: string): DocumentFragment {
  const { body } = new DOMParser().parseFromString(html, "text/html");
  for (const element of body.querySelectorAll("*")) {
    if (!ELEMENTS.has(element.localName.toLowerCase())) element.remove();
    for (const { name, value } of [...element.attributes])
      if (!isInert(name.toLowerCase(), value)) element.removeAttribute(name);
  }
  const fragment = document.createDocumentFragment();
  fragment.append(...body.childNodes);
  return fragment;
}
