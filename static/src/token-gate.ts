// Where a token is entered when the server wants one; stands in place of the views' errors.
import type { App } from "./app";
import { h } from "./dom";
import { embedded } from "./embed";
import { isRefused, keepToken, onRefusal, token } from "./token";

export class TokenGate {
  readonly element: HTMLFormElement;
  private readonly input = h("input", { type: "password", autocomplete: "off", id: "token", required: true });
  private readonly wrong = h("p", { class: "error", id: "error-token" }, "The server does not accept this token.");

  constructor(private readonly app: App) {
    this.input.setAttribute("aria-describedby", this.wrong.id);
    this.element = h(
      "form",
      {
        class: "notice gate",
        "aria-label": "The server’s token",
        hidden: true,
        onsubmit: (e: Event) => {
          e.preventDefault();
          this.use(this.input.value.trim());
        },
      },
      h("h2", {}, "This server wants a token"),
      embedded
        ? h("p", {}, "It is not asked for in a frame of another page. Open headscope in a tab of its own.")
        : [
            h("p", {}, "Who runs it has one for you. It is kept until this tab is closed and sent to this server only."),
            h("label", { class: "field" }, h("span", {}, "Token"), this.input),
            this.wrong,
            h("button", { type: "submit", class: "primary" }, "Use this token"),
          ],
    );
    onRefusal(() => this.show());
  }

  private show(): void {
    const had = token() !== "";
    this.element.hidden = !isRefused();
    this.wrong.hidden = !had;
    if (had) this.input.setAttribute("aria-invalid", "true");
    this.input.focus();
    this.app.readout(had ? "The server does not accept this token." : "This server wants a token.", true);
    this.app.draw();
  }

  // The address holds the state: a fresh page asks for everything anew.
  private use(value: string): void {
    keepToken(value);
    this.app.address();
    location.reload();
  }
}
