// A menu that opens below its name. Escape closes it, and so does a click elsewhere.
import { useEffect, useRef } from "preact/hooks";

export function useMenu() {
  const menu = useRef<HTMLDetailsElement>(null);
  const close = (): void => {
    if (menu.current) menu.current.open = false;
  };
  useEffect(() => {
    const closeOutside = (e: PointerEvent): void => {
      if (!menu.current?.contains(e.target as Node)) close();
    };
    document.addEventListener("pointerdown", closeOutside);
    return () => document.removeEventListener("pointerdown", closeOutside);
  }, []);
  const onKeyDown = (e: KeyboardEvent): void => {
    if (e.key !== "Escape") return;
    e.stopPropagation(); // the pinned cell stays
    close();
    menu.current?.querySelector("summary")?.focus();
  };
  return { menu, close, onKeyDown };
}
