// Keys that work in every view.
import type { App } from "./app/app";
import { embedded } from "./app/embed";
import { VIEWS } from "./app/state";
import { SUM } from "./app/selection";
import { openFiles } from "./opened/open-file";
import { isHelpOpen, openHelp } from "./ui/help";
import { toWindow } from "./ui/windows";

const TYPING = "input:not([type=range],[type=radio],[type=checkbox]), textarea, select";

export function bindKeys(app: App): void {
  document.addEventListener("keydown", (e) => {
    const typing = (e.target as Element).matches(TYPING);
    if (!typing && (e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "z") {
      e.preventDefault();
      return e.shiftKey ? history.forward() : app.address.undo();
    }
    if (typing || e.ctrlKey || e.metaKey || e.altKey || isHelpOpen()) return;
    const view = VIEWS[Number(e.key) - 1];
    if (view) app.go(view);
    else if (e.key === "Escape" && app.state.pin.length) app.pin([]);
    else if (e.key === "Escape" && app.state.view === "head" && !embedded) app.go("overview");
    else if (e.key === "?") openHelp();
    else if (e.key === "o" && !embedded) openFiles();
    else if (e.key === "/" && !embedded) document.getElementById("text")?.focus();
    else if ("[]{}".includes(e.key)) step(app, e.key);
    else if ("<>".includes(e.key) && !embedded) toWindow(app, e.key === ">" ? 1 : -1);
    else return;
    e.preventDefault();
  });
}

// To the head or layer before or after.
function step(app: App, key: string): void {
  const { answer } = app.overview();
  if (!answer) return;
  const { layer, head } = app.selection(answer);
  const along = (value: number, count: number, by: number): number => Math.min(count - 1, Math.max(0, value + by));
  if (key === "[" || key === "]")
    app.pick(layer, along(head === SUM ? 0 : head, answer.heads.length, key === "]" ? 1 : -1));
  else app.pick(along(layer, answer.layers.length, key === "}" ? 1 : -1), head);
}
