// Moves the focus among elements that are one stop for the Tab key: by arrows, Home and End, with Ctrl to the first and
// the last of all.

// Returns where a key leads among `count` places, row by row; undefined: nowhere, or not by this key.
export function goalOf(e: KeyboardEvent, at: number, count: number, columns: number, rtl: boolean): number | undefined {
  if (e.altKey || e.metaKey) return undefined; // the browser's own, such as Alt and Left
  const start = at - (at % columns);
  const whole = e.ctrlKey || columns === 1;
  const left = rtl ? 1 : -1;
  const goal = {
    ArrowLeft: at + left,
    ArrowRight: at - left,
    ArrowUp: at - columns,
    ArrowDown: at + columns,
    Home: whole ? 0 : start,
    End: whole ? count - 1 : start + columns - 1,
  }[e.key];
  return goal === undefined || goal < 0 || goal >= count ? undefined : goal;
}

// Special tokens are written from left to right in every text, so what is around them says its direction.
export function isRightToLeft(element: Element | null | undefined): boolean {
  const around = element?.parentElement;
  return around ? getComputedStyle(around).direction === "rtl" : false;
}

// `elements`: row by row. Returns the one that has the focus now, if the key was one of these and there is one.
export function moveFocus(e: KeyboardEvent, elements: readonly HTMLElement[], columns = 1): HTMLElement | null {
  const at = elements.findIndex((one) => one === document.activeElement);
  const from = elements[at];
  const goal = goalOf(e, at, elements.length, columns, isRightToLeft(from));
  const to = goal === undefined ? undefined : elements[goal];
  if (!from || !to) return null;
  e.preventDefault();
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
  return to;
}
