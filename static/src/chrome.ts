// The frame round the views: the bar above with its tabs and menus, the readout below.
import type { App } from "./app";
import { h, svg } from "./dom";
import { embedded } from "./embed";
import { PrecisionBadge } from "./precision";
import { formatState, VIEWS, type View } from "./state";
import { applyTheme, THEMES, themeChoice, type ThemeChoice } from "./theme";

const NAMES: Record<View, string> = {
  overview: "Overview",
  head: "Head",
  text: "Text",
  pairs: "Pairs",
  compare: "Compare",
  corpus: "Corpus",
  experiment: "Experiment",
};

const RESTING = "Point at a map for values · ? lists the keys";

export class Chrome {
  readonly top: HTMLElement;
  readonly bottom: HTMLElement;
  private readonly tabs: Map<View, HTMLButtonElement>;
  // In a frame: back to the view that was opened there, and on to the whole viewer.
  private readonly back = h("button", { type: "button", class: "link", onclick: () => this.app.set({ view: this.first }, true) });
  private readonly whole = h("a", { target: "_blank", rel: "noopener" }, "Open in headscope");
  private readonly badge = new PrecisionBadge();
  private readonly first: View;

  constructor(private readonly app: App, menu: HTMLElement, onhelp: () => void) {
    this.first = app.state.view;
    this.back.textContent = `← ${NAMES[this.first]}`;
    this.tabs = new Map(
      VIEWS.map((view) => [
        view,
        h(
          "button",
          {
            type: "button",
            onclick: () => app.set({ view }, true),
          },
          NAMES[view],
        ),
      ]),
    );
    const theme = h(
      "select",
      { "aria-label": "Theme", onchange: () => applyTheme(theme.value as ThemeChoice, app) },
      THEMES.map((t) => h("option", { value: t }, t[0]!.toUpperCase() + t.slice(1))),
    );
    theme.value = themeChoice();
    this.top = h(
      "header",
      { class: "top", hidden: embedded },
      h("a", { class: "brand", href: "./", "aria-label": "headscope" }, mark(), h("span", {}, "headscope")),
      h("nav", { "aria-label": "Views" }, [...this.tabs.values()]),
      h(
        "div",
        { class: "tools" },
        menu,
        theme,
        h(
          "button",
          {
            type: "button",
            class: "icon",
            "aria-label": "Keys and help",
            title: "Keys and help (?)",
            onclick: onhelp,
          },
          "?",
        ),
      ),
    );
    const line = h("output", { class: "line", "aria-hidden": "true" });
    line.textContent = RESTING;
    line.classList.add("resting");
    const aloud = h("div", { class: "hidden", role: "status", "aria-live": "polite" });
    this.bottom = h("footer", { class: "readout" }, line, aloud, embedded && h("span", { class: "ways" }, this.badge.element, this.back, this.whole));
    app.onReadout((text, loud) => {
      line.textContent = text || RESTING;
      line.classList.toggle("resting", !text);
      if (loud) aloud.textContent = text;
    });
  }

  update(view: View): void {
    this.back.hidden = view === this.first;
    if (embedded) {
      this.whole.href = `./#${formatState(this.app.state)}`;
      this.badge.update(this.app.models, this.app.state.model);
    }
    for (const [name, tab] of this.tabs) {
      if (name === view && !tab.hasAttribute("aria-current")) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (name === view) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
  }
}

// Nine cells of a map: a diagonal and one column.
function mark(): SVGElement {
  const on = [0, 4, 8, 5, 2];
  return svg(
    "svg",
    { viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true" },
    Array.from({ length: 9 }, (_, n) =>
      svg("rect", {
        x: 1 + (n % 3) * 6.5,
        y: 1 + Math.floor(n / 3) * 6.5,
        width: 5,
        height: 5,
        rx: 1,
        class: on.includes(n) ? (n % 4 === 0 ? "on" : "half") : "off",
      }),
    ),
  );
}
