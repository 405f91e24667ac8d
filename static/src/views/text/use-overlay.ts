import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { perFrame } from "../../app/frame";
import { useResize } from "../../ui/resize";
import { drawOverlay, type Drawing } from "./overlay";

// The drawing over the text, made again after each change of the page that may move a token.
export function useOverlay(paper: { current: HTMLDivElement | null }, drawing: Drawing) {
  const overlay = useRef<SVGSVGElement>(null);
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
  return { overlay, redraw };
}
