// Draws over the text: lines between tokens, and bands under its segments. Places follow the tokens on the page,
// whatever the line breaks.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { perFrame } from "../../app/frame";
import type { Segment } from "../../maps/analysis";
import { cssOf, inkOn, type Lut } from "../../maps/colour";
import { format } from "../../maps/scale";
import { svg } from "../../app/dom";
import { useResize } from "../../ui/resize";
import { arcPath, linesOf, placeIn, type Box, type End } from "./arcs";

const BAND = 11; // height in pixels

interface Drawing {
  ends: readonly End[];
  quantity: "attention" | "similarity";
  segments: readonly Segment[];
  lut: Lut; // of the bands
}

// The drawing over the text, made again after each change of the page that may move a token.
export function useOverlay(
  paper: { readonly current: HTMLDivElement | null },
  overlay: { readonly current: SVGSVGElement | null },
  drawing: Drawing,
): void {
  const last = useRef(drawing);
  last.current = drawing;
  const redraw = useMemo(
    () => perFrame(() => paper.current && overlay.current && drawOverlay(overlay.current, paper.current, last.current)),
    [],
  );
  useLayoutEffect(redraw);
  useResize(paper, redraw);
  useEffect(() => {
    document.fonts.addEventListener("loadingdone", redraw);
    return () => document.fonts.removeEventListener("loadingdone", redraw);
  }, [redraw]);
}

function drawOverlay(overlay: SVGElement, paper: HTMLElement, drawing: Drawing): void {
  if (!paper.clientWidth) return;
  const boxOf = boxesIn(paper);
  // Everything is read before anything is written: else the browser would lay out the page again.
  const [width, height] = [paper.clientWidth, paper.scrollHeight].map(String);
  const parts = [...arcsOf(drawing, boxOf), ...bandsOf(drawing, boxOf)];
  if (overlay.getAttribute("width") !== width || overlay.getAttribute("height") !== height)
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height }))
      overlay.setAttribute(name, String(value));
  overlay.replaceChildren(...parts);
}

type BoxOf = (t: number) => Box | undefined;

// The box of each token. A token of a block without elements has one about where it would be.
function boxesIn(paper: HTMLElement): BoxOf {
  const origin = paper.getBoundingClientRect();
  const boxOf = ({ left, right, top, bottom }: DOMRect): Box => ({
    left: left - origin.left,
    right: right - origin.left,
    top: top - origin.top,
    bottom: bottom - origin.top,
  });
  const blocks = [...paper.querySelectorAll<HTMLElement>("[data-from]")].map((block) => {
    const tokens = block.getElementsByClassName("token"); // in order, so that one is found by its number
    return { block, tokens, from: Number(block.dataset.from), to: Number(block.dataset.to) };
  });
  return (t) => {
    const found = blocks.find(({ from, to }) => from <= t && t < to);
    if (!found) return undefined;
    const { block, tokens, from, to } = found;
    const token = tokens[t - from];
    if (token) return boxOf(token.getClientRects()[0] ?? token.getBoundingClientRect());
    return placeIn(
      boxOf(block.getBoundingClientRect()),
      (t - from) / (to - from),
      parseFloat(getComputedStyle(block).lineHeight),
    );
  };
}

function arcsOf({ ends, quantity }: Drawing, boxOf: BoxOf): SVGElement[] {
  return ends.flatMap(({ i, j, value, lane }) => {
    const [from, to] = [boxOf(i), boxOf(j)];
    if (!from || !to) return [];
    const arc = svg("path", { d: arcPath(from, to, lane), class: `arc ${quantity}`, "data-lane": lane });
    arc.style.strokeOpacity = String(0.2 + 0.7 * value); // opacity would give each line a layer of its own
    arc.style.strokeWidth = String(0.8 + 1.2 * value);
    return [arc];
  });
}

// One strip under every line of a segment, with its cohesion in the first.
function bandsOf({ segments, lut }: Drawing, boxOf: BoxOf): SVGElement[] {
  const top = Math.max(...segments.map((s) => s.cohesion ?? 0), 1e-9);
  return segments.flatMap((segment) => {
    const place = 0.06 + 0.44 * Math.max(0, (segment.cohesion ?? 0) / top);
    const tokens = Array.from({ length: segment.end - segment.start }, (_, k) => boxOf(segment.start + k) ?? []);
    return linesOf(tokens.flat()).flatMap(({ left, right, bottom }, line) => {
      const width = Math.max(2, right - left - 2);
      const band = svg("rect", { x: left + 1, y: bottom + 4, width, height: BAND, rx: 2, fill: cssOf(lut, place) });
      if (line > 0 || right - left <= 40) return [band];
      const at = { x: left + 5, y: bottom + 10, class: "cohesion", fill: inkOn(lut, place) };
      return [band, svg("text", at, format(segment.cohesion))];
    });
  });
}
