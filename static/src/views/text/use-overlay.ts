import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { perFrame } from "../../app/frame";
import { useResize } from "../../ui/resize";
import { drawOverlay, type Drawing } from "./overlay";

// The drawing over the text, made again after each change of the page that may move a token.
// Returns what requests one.
export function useOverlay(
  paper: { readonly current: HTMLDivElement | null },
  overlay: { readonly current: SVGSVGElement | null },
  drawing: Drawing,
): () => void {
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
  return redraw;
}
