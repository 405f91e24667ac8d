import "./style.css";
import { App } from "./app";
import { models } from "./api";
import { Chrome } from "./chrome";
import { h } from "./dom";
import { embedded } from "./embed";
import type { Exportable } from "./export";
import { ExportMenu } from "./export-menu";
import { Help } from "./help";
import { Hints } from "./hints";
import { bindKeys } from "./keys";
import { Panel } from "./panel";
import type { View } from "./state";
import { watchTheme } from "./theme";
import { TokenGate } from "./token-gate";
import { CompareView } from "./views/compare";
import { CorpusView } from "./views/corpus";
import { ExperimentView } from "./views/experiment";
import { HeadView } from "./views/head";
import { OverviewView } from "./views/overview";
import { PairsView } from "./views/pairs";
import { TextView } from "./views/text";

interface Shown {
  element: HTMLElement;
  update(): void;
  readonly entrance?: HTMLElement | null; // null: still to come
  exportable(): Exportable | null;
}

const app = new App(render);
const views: Record<View, Shown> = {
  overview: new OverviewView(app),
  head: new HeadView(app),
  text: new TextView(app),
  pairs: new PairsView(app),
  compare: new CompareView(app),
  corpus: new CorpusView(app),
  experiment: new ExperimentView(app),
};
const panel = new Panel(app);
const hints = new Hints(app);
const gate = new TokenGate(app);
const help = new Help(() => hints.reopen());
const chrome = new Chrome(app, new ExportMenu(app, () => views[app.state.view].exportable()).element, () =>
  help.open(),
);
const stage = h("div", { class: "stage", id: "stage", tabindex: -1 });

const missing = h("p", { class: "notice", role: "status", hidden: true });

// What the address names but is not there.
function tellMissing(): void {
  const answer = app.state.view === "corpus" ? null : app.overview().answer;
  const words = answer ? app.missing(answer) : "";
  if (missing.textContent !== words) missing.textContent = words;
  missing.hidden = !words;
}

const left = new Map<Shown, HTMLElement>(); // where the focus was when a view was left

let byKeys = false; // what was done last; the mouse must not give a map the focus, which would then take the wheel
addEventListener("keydown", () => (byKeys = true), { capture: true });
addEventListener("pointerdown", () => (byKeys = false), { capture: true });

// Whether the view that goes has the focus.
function leave(): boolean {
  const focused = document.activeElement as HTMLElement | null;
  const shown = Object.values(views).find(({ element }) => element.parentElement === stage);
  if (!focused || !shown || !stage.contains(focused)) return false;
  left.set(shown, focused);
  return true;
}

// It goes on at the entrance of the view that comes, or where it was there.
function enter(view: Shown): void {
  const target = view.entrance === undefined ? left.get(view) : byKeys && view.entrance;
  if (target) target.focus();
  if (!stage.contains(document.activeElement)) hold(view);
}

let awaited: Shown | null = null; // whose entrance the keyboard waits for

function hold(view: Shown): void {
  view.element.tabIndex = -1;
  view.element.focus({ preventScroll: true });
  awaited = byKeys && view.entrance === null ? view : null;
}

// A map that comes late, or goes while the next head's is on its way, has the focus once it is here: unless that moved on.
function follow(view: Shown): void {
  const focused = document.activeElement;
  if (view.entrance === null) {
    if (byKeys && view.element.contains(focused) && !focused!.getClientRects().length) hold(view);
    return;
  }
  if (awaited === view && focused === view.element) view.entrance?.focus();
  awaited = null;
}

function render(): void {
  const view = views[app.state.view];
  const comes = view.element.parentElement !== stage;
  const lost = comes && leave();
  if (comes) stage.replaceChildren(gate.element, missing, hints.element, view.element);
  chrome.update(app.state.view);
  panel.element.hidden = embedded || app.state.view === "corpus"; // which is not about one text
  if (!panel.element.hidden) panel.update();
  tellMissing();
  hints.update();
  view.update();
  if (lost) enter(view);
  follow(view);
}

document.documentElement.classList.toggle("embedded", embedded);
document.querySelector("#app")!.append(
  h(
    "a",
    {
      class: "skip",
      href: "#stage",
      onclick: (e: Event) => {
        e.preventDefault();
        stage.focus();
      },
    },
    "Skip to the view",
  ),
  chrome.top,
  h("main", {}, h("h1", { class: "hidden" }, "headscope: how an encoder pays attention"), panel.element, stage),
  chrome.bottom,
  help.element,
);
watchTheme(app);
bindKeys(app, panel, help);
// The text is analysed without waiting for the first frame or the list of models.
if (app.state.view !== "corpus") app.overview();
models().then(
  (list) => {
    app.models = list;
    app.draw();
  },
  () => app.draw(),
);
app.draw();
