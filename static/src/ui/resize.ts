// Calls back with the size of an element, at first and after each change.
import { useEffect } from "preact/hooks";

// `inputs`: values whose change means that the element may be another one.
export function useResize(
  place: { readonly current: Element | null },
  onResize: (size: DOMRectReadOnly) => void,
  inputs: readonly unknown[] = [],
): void {
  useEffect(() => {
    if (!place.current) return;
    const observer = new ResizeObserver(([entry]) => entry && onResize(entry.contentRect));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, inputs);
}
