// A part of the page as one SVG, as it is on screen: its texts, grounds, borders and drawings at their places. A canvas is
// an image with its texts above it. Inkscape and rsvg-convert know no CSS, so colours are written as #rrggbb, and each line
// of a text is placed.
import { FINENESS, svg } from "../app/dom";

const EDGE = 20; // around the picture
const FOOT = 24; // below it, for its title
// Readers without textLength, such as rsvg-convert, need faces of about the same width: DejaVu Sans is a sixth wider.
const SANS = "IBM Plex Sans, Plex Sans, Helvetica, Arial, DejaVu Sans Condensed, sans-serif";
const MONO = "IBM Plex Mono, Plex Mono, Menlo, DejaVu Sans Mono, monospace";
const BASELINE = 0.36; // below the middle of a line, in font sizes
const FINE = 3; // pixels of a map in each CSS pixel

const SIDES = ["Top", "Right", "Bottom", "Left"] as const;
const KEPT = { "stroke-width": "1px", "stroke-dasharray": "none", opacity: "1", "font-size": "", "font-weight": "400", "text-anchor": "start" }; // prettier-ignore

let pen: OffscreenCanvasRenderingContext2D | null = null;
const penOf = () => (pen ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true })!);
const colours = new Map<string, { hex: string; opacity: number }>();

// Any colour of CSS, also those that only browsers read.
function colourOf(css: string): { hex: string; opacity: number } {
  let colour = colours.get(css);
  if (!colour) {
    const pen = penOf();
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = css;
    pen.fillRect(0, 0, 1, 1);
    const [r = 0, g = 0, b = 0, a = 0] = pen.getImageData(0, 0, 1, 1).data;
    const hex = `#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`;
    colours.set(css, (colour = { hex, opacity: +(a / 255).toFixed(3) }));
  }
  return colour;
}

// An attribute of a colour, and its opacity if it is not full.
function painted(name: "fill" | "stroke", css: string): Record<string, string | number | null> {
  const { hex, opacity } = colourOf(css);
  return opacity ? { [name]: hex, [`${name}-opacity`]: opacity < 1 ? opacity : null } : { [name]: "none" };
}

// Fits a text to its place, whatever font the reader has.
const fitted = (words: string, width: number): Record<string, string | number | null> =>
  words.length > 1 ? { textLength: +width.toFixed(2), lengthAdjust: "spacingAndGlyphs" } : {};

interface Line {
  words: string;
  left: number;
  right: number;
  middle: number;
}

// The lines of texts that follow each other on the page.
function linesOf(texts: readonly Text[]): Line[] {
  const data = texts.map((text) => text.data).join("");
  const [from, to] = [data.search(/\S/), data.trimEnd().length];
  const range = document.createRange();
  const locate = (at: number): [Text, number] => {
    let [n, left] = [0, at];
    while (left > texts[n]!.length) left -= texts[n++]!.length;
    return [texts[n]!, left];
  };
  const placed = (start: number, end: number): Line[] => {
    range.setStart(...locate(start));
    range.setEnd(...locate(end));
    const boxes = [...range.getClientRects()].filter(({ width }) => width > 0);
    const [box] = boxes;
    if (!box) return [];
    // In a text from right to left, the first box is the last from left to right.
    const [left, right] = [Math.min(...boxes.map((b) => b.left)), Math.max(...boxes.map((b) => b.right))];
    if (boxes.every(({ top }) => top === box.top))
      return [{ words: data.slice(start, end), left, right, middle: (box.top + box.bottom) / 2 }];
    if (end - start < 2) return [];
    // Halves, until each lies in one line. The two sides of a cut within a line are joined again.
    const half = Math.ceil((start + end) / 2);
    const [first, second] = [placed(start, half), placed(half, end)];
    const [before, after] = [first.at(-1), second[0]];
    if (!before || before.middle !== after?.middle) return [...first, ...second];
    const ends = { left: Math.min(before.left, after.left), right: Math.max(before.right, after.right) };
    const joined = { ...before, words: before.words + after.words, ...ends };
    return [...first.slice(0, -1), joined, ...second.slice(1)];
  };
  return from < 0 ? [] : placed(from, to);
}

// Each word at its place. The bold face that replaces a missing one is a quarter wider, which would add up.
function placedWords(words: string, left: number, width: number): SVGElement[] {
  const pen = penOf();
  const scale = width / pen.measureText(words).width;
  return [...words.matchAll(/\S+\s*/g)].map(({ 0: word, index }) =>
    svg(
      "tspan",
      {
        x: +(left + scale * pen.measureText(words.slice(0, index)).width).toFixed(2),
        ...fitted(word, scale * pen.measureText(word).width),
      },
      word,
    ),
  );
}

function drawTexts(into: Element, texts: readonly Text[], style: CSSStyleDeclaration): void {
  const size = parseFloat(style.fontSize);
  const bold = Number(style.fontWeight) > 400;
  const pen = penOf();
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  for (const { words, left, right, middle } of linesOf(texts)) {
    const narrow = style.display.startsWith("ruby") ? pen.measureText(words).width : Infinity; // in a wider place
    const width = Math.min(right - left, narrow);
    const x = (left + right - width) / 2;
    const line = words.replace(/\s+/g, " ");
    const apart = bold && line.trim().split(" ").length > 2;
    into.append(
      svg(
        "text",
        {
          x,
          y: middle + BASELINE * size,
          "font-size": size,
          "font-weight": bold ? 600 : null,
          "font-style": style.fontStyle === "italic" ? "italic" : null,
          "font-family": style.fontFamily.includes("Mono") ? MONO : null,
          ...(apart ? {} : fitted(words, width)),
          ...painted("fill", style.color),
        },
        ...(apart ? placedWords(line, x, width) : [line]),
      ),
    );
  }
}

// Ground, borders and frame of an element; of one that is broken into lines, of each. A frame is a shadow without blur.
function drawBox(into: Element, element: Element, style: CSSStyleDeclaration): void {
  const stops = style.backgroundImage.match(/rgba?\([^)]*\)/g);
  const borders = SIDES.map((side) => ({
    width: style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`]),
    colour: style[`border${side}Color`],
  }));
  const ground = painted("fill", style.backgroundColor);
  const alike = borders.every(({ width, colour }) => width === borders[0]?.width && colour === borders[0]?.colour);
  const [, frame, spread, inset] = /^(.*\)) 0px 0px 0px (\S+)px( inset)?$/.exec(style.boxShadow) ?? [];
  if (!stops && !frame && ground.fill === "none" && borders.every(({ width }) => width === 0)) return;
  for (const { left: x, top: y, width, height, right, bottom } of element.getClientRects()) {
    const rx = Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2);
    const dashes = style.borderTopStyle === "dashed" ? { "stroke-dasharray": "3 2" } : {};
    const outline = alike && borders[0]?.width ? { ...painted("stroke", borders[0].colour), "stroke-width": borders[0].width, ...dashes } : {}; // prettier-ignore
    if (ground.fill !== "none" || "stroke" in outline)
      into.append(svg("rect", { x, y, width, height, rx: rx || null, ...ground, ...outline }));
    stops?.forEach((stop, n) => {
      const step = width / stops.length;
      into.append(svg("rect", { x: x + n * step, y, width: step + 0.5, height, ...painted("fill", stop) }));
    });
    const ends = [[x, y, right, y], [right, y, right, bottom], [x, bottom, right, bottom], [x, y, x, bottom]]; // prettier-ignore
    if (!alike)
      borders.forEach(({ width: wide, colour }, n) => {
        const [x1, y1, x2, y2] = ends[n] ?? [];
        if (wide) into.append(svg("line", { x1, y1, x2, y2, "stroke-width": wide, ...painted("stroke", colour) }));
      });
    if (frame) {
      const [wide, by] = [Number(spread), Number(spread) / (inset ? 2 : -2)];
      const shape = { x: x + by, y: y + by, width: width - 2 * by, height: height - 2 * by, rx: rx || null };
      into.append(svg("rect", { ...shape, fill: "none", "stroke-width": wide, ...painted("stroke", frame) }));
    }
  }
}

// A drawing of the page with the styles that its classes give it.
function drawDrawing(into: Element, drawing: SVGSVGElement): void {
  const { left: x, top: y, width, height } = drawing.getBoundingClientRect();
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const copies = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  [drawing, ...drawing.querySelectorAll("*")].forEach((from, n) => {
    const style = getComputedStyle(from);
    const to = copies[n]!;
    const set = (values: Record<string, string | number | null>): void => {
      for (const [name, value] of Object.entries(values)) if (value !== null) to.setAttribute(name, String(value));
    };
    for (const name of ["class", "style", "tabindex"]) to.removeAttribute(name);
    for (const name of ["fill", "stroke"] as const) set(style[name] === "none" ? { [name]: "none" } : painted(name, style[name])); // prettier-ignore
    for (const [name, initial] of Object.entries(KEPT)) {
      const value = style.getPropertyValue(name);
      if (value !== initial) set({ [name]: value });
    }
    if (style.dominantBaseline !== "auto") set({ dy: BASELINE * parseFloat(style.fontSize), "dominant-baseline": "auto" }); // prettier-ignore
  });
  for (const [name, value] of Object.entries({ x, y, width, height, overflow: "visible" }))
    copy.setAttribute(name, String(value));
  into.append(copy);
}

type Context = CanvasRenderingContext2D;

// The texts of canvases that are drawn for a picture.
const written = new WeakMap<HTMLCanvasElement, SVGElement[]>();

// A text that a canvas would paint, where it would paint it, in CSS pixels from the canvas's corner.
function writtenText(g: Context, words: string, x: number, y: number): SVGElement {
  const { a, b, e, f } = g.getTransform().translate(x, y);
  const scale = g.canvas.width / g.canvas.clientWidth;
  const [, weight, size] = /^(?:(\d+|bold) )?([\d.]+)px/.exec(g.font) ?? [];
  const fontSize = (Number(size) * Math.hypot(a, b)) / scale;
  const [left, top, angle] = [e / scale, f / scale, (Math.atan2(b, a) * 180) / Math.PI];
  const down = { middle: BASELINE, top: 0.8, bottom: -0.2 }[g.textBaseline as string] ?? 0;
  return svg(
    "text",
    {
      transform: `translate(${left.toFixed(2)} ${top.toFixed(2)})` + (angle ? ` rotate(${angle.toFixed(1)})` : ""),
      y: +(down * fontSize).toFixed(2),
      "font-size": +fontSize.toFixed(2),
      "font-weight": weight ? 600 : null,
      "text-anchor": { center: "middle", right: "end", end: "end" }[g.textAlign as string] ?? null,
      ...fitted(words, (g.measureText(words).width * Math.hypot(a, b)) / scale),
      ...painted("fill", typeof g.fillStyle === "string" ? g.fillStyle : "black"),
    },
    words,
  );
}

// Lets canvases keep their texts in place of painting them. Returns what ends this.
function keepTexts(canvases: readonly HTMLCanvasElement[]): () => void {
  const contexts = canvases.flatMap((canvas) => canvas.getContext("2d") ?? []);
  for (const g of contexts) {
    const texts: SVGElement[] = [];
    written.set(g.canvas, texts);
    g.fillText = (words, x, y) => void (words.trim() && texts.push(writtenText(g, words, x, y)));
  }
  return () => {
    for (const g of contexts) {
      Reflect.deleteProperty(g, "fillText");
      written.delete(g.canvas);
    }
  };
}

// The link that readers of SVG 1.1 know too.
function linked(image: SVGImageElement, address: string): SVGImageElement {
  image.setAttributeNS("http://www.w3.org/1999/xlink", "xlink:href", address);
  return image;
}

// `above`: what lies above other elements, to be drawn after them.
function drawElement(into: Element, element: Element, above: (() => void)[]): void {
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility !== "visible" || style.clipPath !== "none") return;
  const { left: x, top: y, width, height } = element.getBoundingClientRect();
  let place = into;
  const within = (group: SVGElement): void => void (place = place.appendChild(group));
  if (style.opacity !== "1") within(svg("g", { opacity: style.opacity }));
  if (element instanceof SVGSVGElement) return drawDrawing(place, element);
  drawBox(place, element, style);
  if (element instanceof HTMLCanvasElement) {
    const href = width ? element.toDataURL("image/png") : "";
    const shape = { x, y, width, height, preserveAspectRatio: "none", "image-rendering": "pixelated" };
    if (href) place.append(linked(svg("image", shape), href));
    const texts = written.get(element);
    if (texts?.length) place.append(svg("g", { transform: `translate(${x} ${y})` }, ...texts));
    return;
  }
  if (
    style.overflowX !== "visible" &&
    (element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight)
  )
    // prettier-ignore
    within(svg("svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` }));
  const closed = element instanceof HTMLDetailsElement && !element.open;
  let texts: Text[] = [];
  for (const child of closed ? [] : element.childNodes) {
    if (child instanceof Text) texts.push(child);
    if (child instanceof Text && child.nextSibling instanceof Text) continue;
    drawTexts(place, texts, style);
    texts = [];
    if (!(child instanceof Element)) continue;
    const draw = (): void => drawElement(place, child, above);
    if (Number(getComputedStyle(child).zIndex) > 0) above.push(draw);
    else draw();
  }
}

// Draws what `part` shows, without its controls, above a title. `origin` is kept as its metadata.
export function snapshotOf(part: Element, title: string, origin: object): SVGSVGElement {
  const canvases = [...part.querySelectorAll("canvas")];
  const fineness = (detail: number): void => {
    for (const canvas of canvases) canvas.dispatchEvent(new CustomEvent(FINENESS, { detail }));
  };
  // The controls are away only while the places are read, before the next frame.
  part.classList.add("saving");
  const paintTexts = keepTexts(canvases);
  fineness(Math.max(FINE, devicePixelRatio));
  const { left, top, width, height } = part.getBoundingClientRect();
  const [x, y, w, h] = [left - EDGE, top - EDGE, width + 2 * EDGE, height + 2 * EDGE + FOOT];
  const root = svg("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: `${x} ${y} ${w} ${h}`,
    width: w,
    height: h,
    "font-family": SANS,
  });
  const page = getComputedStyle(document.documentElement);
  const line = { x: left, y: y + h - EDGE + 4, "font-size": 9, ...painted("fill", page.getPropertyValue("--muted")) };
  root.append(
    svg("metadata", {}, JSON.stringify(origin)),
    svg("rect", { x, y, width: w, height: h, ...painted("fill", page.getPropertyValue("--page")) }),
  );
  const above: (() => void)[] = [];
  drawElement(root, part, above);
  for (const draw of above) draw();
  root.append(svg("text", line, title));
  part.classList.remove("saving");
  paintTexts();
  fineness(devicePixelRatio);
  return root;
}
