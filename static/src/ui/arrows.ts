// Moves the focus among elements that are one stop for the Tab key: by arrows, Home and End, with Ctrl to the first and
// the last of all.

// `elements`: row by row. Returns the one that has the focus now, if the key was one of these and there is one.
export function moveFocus(e: KeyboardEvent, elements: readonly HTMLElement[], columns = 1): HTMLElement | null {
  const at = elements.findIndex((one) => one === document.activeElement);
  const start = at - (at % columns);
  const whole = e.ctrlKey || columns === 1;
  // Special tokens are written from left to right in every text, so what is around them says its direction.
  const around = elements[at]?.parentElement;
  const left = around && getComputedStyle(around).direction === "rtl" ? 1 : -1;
  const goal = {
    ArrowLeft: at + left,
    ArrowRight: at - left,
    ArrowUp: at - columns,
    ArrowDown: at + columns,
    Home: whole ? 0 : start,
    End: whole ? elements.length - 1 : start + columns - 1,
  }[e.key];
  const [from, to] = [elements[at], goal === undefined ? undefined : elements[goal]];
  if (!from || !to) return null;
  e.preventDefault();
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
  return to;
}
