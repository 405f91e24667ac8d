// Keys that work in every view.
import type { App } from "./app";
import { embedded } from "./embed";
import type { Help } from "./help";
import type { Panel } from "./panel";
import { SUM, VIEWS } from "./state";

export function bindKeys(app: App, panel: Panel, help: Help): void {
  document.addEventListener("keydown", (e) => {
    const target = e.target as Element;
    const typing = target.matches("input:not([type=range],[type=radio],[type=checkbox]), textarea, select");
    if (typing || e.ctrlKey || e.metaKey || e.altKey || help.element.open) return;
    const view = VIEWS[Number(e.key) - 1];
    if (view) app.set({ view }, true);
    else if (e.key === "Escape" && app.state.pin.length) app.set({ pin: [] });
    else if (e.key === "Escape" && app.state.view === "head" && !embedded) app.set({ view: "overview" }, true);
    else if (e.key === "?") help.open();
    else if (e.key === "/" && !embedded) panel.focus();
    else if ("[]{}".includes(e.key)) step(app, e.key);
    else return;
    e.preventDefault();
  });
}

function step(app: App, key: string): void {
  const answer = app.overview().answer;
  if (!answer) return;
  const { layer, head } = app.selection(answer);
  const along = (value: number, count: number, by: number): number => Math.min(count - 1, Math.max(0, value + by));
  if (key === "[" || key === "]")
    app.set({ layer, head: along(head === SUM ? 0 : head, answer.heads.length, key === "]" ? 1 : -1) }, true);
  else app.set({ layer: along(layer, answer.layers.length, key === "}" ? 1 : -1), head }, true);
}
