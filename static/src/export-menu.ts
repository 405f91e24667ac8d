// The menu that saves and shares what is on screen.
import { arraysOf, csvOf, curlOf, headRowsOf, pngOf, pythonOf, save, svgOf, type Exportable } from "./export";
import type { App } from "./app";
import { h, replace } from "./dom";
import { frameOf } from "./embed";
import { token } from "./token";

export class ExportMenu {
  readonly element = h("details", { class: "menu" });
  private readonly list = h("div", { class: "items", role: "group", "aria-label": "Save and share" });
  private readonly note = h("p", { role: "status" });

  constructor(
    private readonly app: App,
    private readonly current: () => Exportable | null,
  ) {
    this.element.append(h("summary", {}, "Export"), h("div", { class: "sheet" }, this.list, this.note));
    this.element.addEventListener("toggle", () => {
      if (this.element.open) this.fill();
    });
    document.addEventListener("pointerdown", (e) => {
      if (!this.element.contains(e.target as Node)) this.element.open = false;
    });
    this.element.addEventListener("keydown", (e) => {
      if (e.key !== "Escape") return;
      e.stopPropagation(); // the held cell stays
      this.element.open = false;
      this.element.querySelector("summary")!.focus();
    });
  }

  private fill(): void {
    const seen = this.current();
    const { request, second } = seen?.provenance ?? {};
    const requests = [request, second].filter((one) => one !== undefined);
    this.note.textContent = seen ? "" : "There is nothing to save yet.";
    const item = (label: string, does: string, act: () => unknown): HTMLElement =>
      h(
        "button",
        {
          type: "button",
          onclick: () => void this.run(act),
        },
        h("span", {}, label),
        h("small", {}, does),
      );
    const address = new URL("analyze", location.href.split("#")[0]).href;
    const saved =
      (ending: string, make: (seen: Exportable) => Blob | Promise<Blob>) => async (): Promise<string> => {
        save(await make(seen!), `${seen!.name}.${ending}`);
        return `Saved ${seen!.name}.${ending}`;
      };
    const copied = (text: string, what: string) => async (): Promise<string> => {
      await navigator.clipboard.writeText(text);
      return `Copied ${what}`;
    };
    replace(
      this.list,
      seen?.picture && [
        item("PNG", "picture, 2 ×", saved("png", pngOf)),
        item("SVG", "picture, vector labels", saved("svg", svgOf)),
      ],
      seen && item("CSV", "table", saved("csv", csvOf)),
      seen?.heads &&
        item("CSV of heads", "table of all heads", () =>
          saved("heads.csv", (all) => csvOf({ ...all, rows: () => headRowsOf(all.heads!) }))(),
        ),
      request && [
        item("npz", "arrays for NumPy", saved("npz", arraysOf)),
        item("curl", "copy the request", copied(curlOf(requests, address, token() !== ""), "the curl command")),
        item(
          "Python",
          "copy the request",
          copied(pythonOf(requests, address, token() !== ""), "the Python program"),
        ),
      ],
      item("Link", "copy this view’s address", () => copied(this.app.address(), "the link")()),
      item("Frame", "copy for a notebook or page", () =>
        copied(frameOf(this.app.address(), seen?.title ?? "headscope"), "the frame")(),
      ),
    );
  }

  private async run(act: () => unknown): Promise<void> {
    this.note.textContent = "…";
    try {
      this.note.textContent = String(await act());
    } catch (error) {
      this.note.textContent = error instanceof Error ? error.message : String(error);
    }
    this.app.draw();
  }
}
