// Panels of another file, of which nobody knows who wrote it: only what draws and tabulates comes through. They are
// parsed in a document that runs and loads nothing, and what is left is moved, never written out and read again.

const ELEMENTS = new Set(
  "svg image path rect text title desc table thead tbody tr th td div figcaption h3 span strong p br details summary a".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  (
    "class id role scope data-name data-head viewbox width height x y d fill stroke stroke-width stroke-dasharray " +
    "font-family font-size text-anchor direction transform preserveaspectratio"
  ).split(" "),
);

// Addresses lead nowhere but into the page; pictures are within it.
function isInert(name: string, value: string): boolean {
  if (name === "href" || name === "xlink:href") return /^(#|data:image\/png;base64,)/.test(value);
  if (name === "style") return value === "image-rendering:pixelated";
  return ATTRIBUTES.has(name) && !/url\s*\(/i.test(value);
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
