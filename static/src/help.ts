// The keys, in a dialog; "?" opens it.
import { h } from "./dom";
import { keepToken, token } from "./token";

const KEYS: readonly [string, readonly [string, string][]][] = [
  [
    "Everywhere",
    [
      ["1 – 7", "views"],
      ["[  ]", "head before, after"],
      ["{  }", "layer before, after"],
      ["/", "to the text"],
      ["Ctrl ↵", "analyse (in the text)"],
      ["?", "this list"],
    ],
  ],
  [
    "Overview",
    [
      ["← → ↑ ↓", "move through the heads"],
      ["Home End", "ends of the row"],
      ["↵", "open the head"],
    ],
  ],
  [
    "Map",
    [
      ["← → ↑ ↓", "move the cross-hair"],
      ["Shift + arrows", "ten cells"],
      ["Esc", "release the held cell; then back to all heads"],
      ["+ − 0", "zoom, whole map"],
      ["wheel", "zoom, once the map is clicked"],
      ["drag", "move a zoomed map"],
    ],
  ],
  [
    "Text",
    [
      ["← →", "token before, after"],
      ["Space", "select the token"],
      ["Esc", "select none"],
    ],
  ],
  [
    "Experiment",
    [
      ["← → ↑ ↓", "move through the heads"],
      ["↵", "change the head, or the layer"],
      ["Shift ↵", "show the head’s maps"],
    ],
  ],
  [
    "Pairs",
    [
      ["↑ ↓", "pair above, below"],
      ["↵", "show it on the map"],
    ],
  ],
];

export class Help {
  readonly element: HTMLDialogElement;
  private readonly forget = h("button", { type: "button", onclick: () => forgetToken() }, "Forget the token");
  constructor(onhints: () => void) {
    this.element = h(
      "dialog",
      { class: "help", "aria-label": "Keys and help" },
      h(
        "form",
        { method: "dialog" },
        h("h2", {}, "Keys"),
        h("button", { class: "icon", "aria-label": "Close" }, "×"),
      ),
      h(
        "div",
        { class: "keys" },
        KEYS.map(([title, keys]) =>
          h(
            "section",
            {},
            h("h3", {}, title),
            h(
              "dl",
              {},
              keys.map(([key, does]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, does))),
            ),
          ),
        ),
      ),
      h(
        "p",
        { class: "muted" },
        "Method: ",
        h("a", { href: "https://arxiv.org/abs/2512.21956", rel: "noreferrer" }, "arXiv 2512.21956"),
        " · The service: ",
        h("a", { href: "openapi.json" }, "OpenAPI"),
      ),
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            this.element.close();
            onhints();
          },
        },
        "Show the first hints again",
      ),
      this.forget,
    );
    this.element.addEventListener("click", (e) => {
      if (e.target === this.element) this.element.close();
    });
  }
  open(): void {
    this.forget.hidden = token() === "";
    if (!this.element.open) this.element.showModal();
  }
}

function forgetToken(): void {
  keepToken("");
  location.reload();
}
