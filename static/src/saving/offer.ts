// The files that the view on screen can save.
import { useLayoutEffect } from "preact/hooks";
import type { Exportable } from "./export";

type Make = () => Exportable | null;

let make: Make = () => null;
let changed = (): void => {};

export const offered: Make = () => make();

// The listener is called after each drawing of a view that offers something.
export const onOffer = (listener: () => void): void => void (changed = listener);
export const tellOffer = (): void => changed();

// A view that is left offers nothing more.
export const withdraw = (): void => void (make = () => null);

// owns: false if a part of the view offers files in its place.
export function useExport(next: Make, owns = true): void {
  useLayoutEffect(() => {
    if (!owns) return;
    make = next;
    changed();
  });
}
