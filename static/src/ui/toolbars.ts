// Makes each element of role "toolbar" one stop for the Tab key, by WAI-ARIA's toolbar pattern: Left, Right, Home and End
// move among its controls. Radio buttons are passed like other controls: Up, Down and Space choose. Fields that are typed
// in, and sliders, need these keys themselves, so each stays a stop of its own. So do the controls in an open menu.
import { moveFocus } from "./arrows";

const CONTROLS = "a[href], button, summary, select, input:is([type=radio], [type=checkbox])";
const ELSEWHERE = ":disabled, :scope details > :not(summary) *, :scope :is([popover], dialog) *";
const KEYS = ["ArrowLeft", "ArrowRight", "Home", "End"];

const controlsOf = (bar: HTMLElement): HTMLElement[] =>
  [...bar.querySelectorAll<HTMLElement>(`:is(${CONTROLS}):not(${ELSEWHERE})`)].filter((one) =>
    one.checkVisibility({ visibilityProperty: true }),
  );

// Browsers let Tab enter a group of radio buttons at the checked one alone.
const entranceOf = (controls: readonly HTMLElement[], stop: HTMLElement | undefined): HTMLElement | undefined =>
  stop instanceof HTMLInputElement && stop.type === "radio"
    ? (controls.find((one) => one instanceof HTMLInputElement && one.name === stop.name && one.checked) ?? stop)
    : stop;

// Leaves one stop: the control with the focus, or the one that had it last, or the first.
function settle(bar: HTMLElement): void {
  const controls = controlsOf(bar);
  const last = controls.find((one) => one.getAttribute("tabindex") === "0");
  const stop = controls.find((one) => one === document.activeElement) ?? entranceOf(controls, last ?? controls[0]);
  for (const one of controls) one.tabIndex = one === stop ? 0 : -1;
}

// The stops are settled when Tab is pressed. By then controls may have been drawn anew, disabled or hidden.
export function bindToolbars(): void {
  const onTab = (e: KeyboardEvent): void => {
    if (e.key === "Tab") document.querySelectorAll<HTMLElement>("[role=toolbar]").forEach(settle);
  };
  document.addEventListener("keydown", onTab, { capture: true });
  document.addEventListener("keydown", (e) => {
    const bar = (e.target as Element).closest<HTMLElement>("[role=toolbar]");
    if (!bar || e.ctrlKey || e.altKey || e.metaKey || e.shiftKey || !KEYS.includes(e.key)) return;
    const controls = controlsOf(bar);
    if (!controls.includes(e.target as HTMLElement)) return;
    moveFocus(e, controls);
    e.preventDefault(); // even at an end: a list or radio button would choose another value
  });
}
