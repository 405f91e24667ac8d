// Starts a corpus run: a file dropped or chosen, the run's options, and how much of the file is sent.
import { Problem } from "./api";
import type { App } from "./app";
import { linesOf, LINES, RUN_OPTIONS, startRun, type Lines, type Run, type RunOption } from "./corpora";
import { h, replace } from "./dom";
import { PrecisionBadge } from "./precision";

const BEGINNING = 64 << 10; // bytes looked at to tell what the lines are

const HOLDS: Record<Lines, string> = {
  "application/x-ndjson": "JSON, a line each (NDJSON)",
  "text/plain": "A text a line",
  "application/json": "A JSON array",
  "text/csv": "CSV with a column text",
  "text/tab-separated-values": "TSV with a column text",
  "application/octet-stream": "Whatever it looks like",
};

type Place = RunOption | "file" | "all";

// Where a problem is told: at the option it points to, else below the form.
const placeOf = ({ pointer }: Problem): Place => RUN_OPTIONS.find((name) => pointer === `/${name}`) ?? "all";

export function bytes(n: number): string {
  if (n < 1e3) return `${n} bytes`;
  return n < 1e6
    ? `${(n / 1e3).toFixed(0)} kB`
    : n < 1e9
      ? `${(n / 1e6).toFixed(1)} MB`
      : `${(n / 1e9).toFixed(2)} GB`;
}

export class RunForm {
  readonly element: HTMLFormElement;
  private readonly file = h("input", { type: "file", accept: ".jsonl,.ndjson,.json,.txt,.csv,.tsv,.conllu,.gz,.zst,text/plain" });
  private readonly chosen = h("span", { class: "chosen" });
  private readonly lines: HTMLSelectElement;
  private readonly inputs: Record<RunOption, HTMLInputElement | HTMLSelectElement>;
  private readonly errors = new Map<Place, HTMLElement>();
  private readonly badge = new PrecisionBadge();
  private readonly submit = h("button", { type: "submit", class: "primary" }, "Start the run");
  private readonly progress = h("div", { class: "sending", role: "status" });
  private corpus: File | null = null;
  private sending: AbortController | null = null;

  constructor(
    private readonly app: App,
    private readonly onstart: (run: Run) => void,
  ) {
    const text = (value: string, placeholder: string): HTMLInputElement =>
      h("input", { type: "text", value, placeholder, spellcheck: "false", autocomplete: "off" });
    this.inputs = {
      name: text("", "the file’s name"),
      model: h("select"),
      max_tokens: h("input", { type: "number", min: 2, value: 128 }),
      layers: text("all", "all"),
      thresholds: text("0.1,0.2,0.3,0.4,0.5", "0.1,0.2,0.3,0.4,0.5"),
    };
    this.lines = h(
      "select",
      {},
      LINES.map((type) => h("option", { value: type }, HOLDS[type])),
    );
    this.file.addEventListener("change", () => void this.choose(this.file.files?.[0] ?? null));
    const drop = h(
      "label",
      { class: "drop" },
      this.file,
      h("span", {}, h("strong", {}, "Drop a file"), " here, or choose one"),
      this.chosen,
    );
    this.element = h(
      "form",
      {
        class: "run-form card",
        "aria-label": "New run",
        novalidate: true,
        onsubmit: (e: Event) => {
          e.preventDefault();
          void this.start();
        },
      },
      h("h2", {}, "New run"),
      this.guarded("file", drop, this.file),
      h("label", { class: "field" }, h("span", {}, "The file holds"), this.lines),
      this.field("name", "Name"),
      h("div", { class: "two" }, h("div", { class: "badged" }, this.field("model", "Model"), this.badge.element), this.field("max_tokens", "Tokens at most")),
      this.field("layers", "Layers: all, last, or numbers"),
      this.field("thresholds", "Similarity thresholds"),
      this.guarded("all", h("div", { class: "submit" }, this.submit), this.submit),
      this.progress,
    );
  }

  private field(name: RunOption, label: string): HTMLElement {
    const input = this.inputs[name];
    input.id = `run-${name}`;
    return this.guarded(name, h("label", { class: "field" }, h("span", {}, label), input), input);
  }

  // With the place for a problem below it.
  private guarded(name: Place, field: HTMLElement, input: Element): HTMLElement {
    const message = h("p", { class: "error", id: `run-error-${name}`, hidden: true });
    input.setAttribute("aria-describedby", message.id);
    this.errors.set(name, message);
    return h("div", {}, field, message);
  }

  // Files dropped anywhere upon this element are taken.
  catchDrops(place: HTMLElement): void {
    const over = (on: boolean) => (e: DragEvent) => {
      if (!e.dataTransfer?.types.includes("Files")) return;
      e.preventDefault();
      this.element.classList.toggle("over", on);
    };
    place.addEventListener("dragover", over(true));
    place.addEventListener("dragleave", over(false));
    place.addEventListener("drop", (e) => {
      over(false)(e);
      const file = e.dataTransfer?.files[0];
      if (file) void this.choose(file);
    });
  }

  private async choose(file: File | null): Promise<void> {
    if (!file) return;
    this.corpus = file;
    this.chosen.textContent = `${file.name} · ${bytes(file.size)}`;
    (this.inputs.name as HTMLInputElement).placeholder = file.name;
    this.tell(null);
    this.lines.value = linesOf(await file.slice(0, BEGINNING).text(), file.name);
  }

  private async start(): Promise<void> {
    const { corpus, inputs } = this;
    if (!corpus) return this.tell({ field: "file", text: "Choose the file that holds the texts, one a line." });
    this.tell(null);
    this.sending = new AbortController();
    this.show(0, corpus.size);
    const options = Object.fromEntries(RUN_OPTIONS.map((name) => [name, inputs[name].value.trim()]));
    options.name ||= corpus.name;
    try {
      const { signal } = this.sending;
      const run = await startRun(corpus, this.lines.value as Lines, options, signal, (a, b) => this.show(a, b));
      this.app.readout(`Run ${options.name} has begun`, true);
      this.onstart(run);
    } catch (error) {
      if (error instanceof Problem) this.tell({ field: placeOf(error), text: this.words(error) });
      else if (!this.sending.signal.aborted) throw error;
    } finally {
      this.sending = null;
      this.show(0, 0);
    }
  }

  private words({ detail, title, retryAfter }: Problem): string {
    const said = detail || title;
    return `${said.slice(0, 1).toUpperCase()}${said.slice(1)}${retryAfter ? ` The server asks to wait ${retryAfter} s.` : ""}`;
  }

  private tell(problem: { field: Place; text: string } | null): void {
    for (const [name, message] of this.errors) {
      const wrong = problem?.field === name;
      message.hidden = !wrong;
      message.textContent = wrong ? problem.text : "";
      const input = name === "file" ? this.file : name === "all" ? this.submit : this.inputs[name];
      if (wrong && input !== this.submit) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
      if (wrong) input.focus();
    }
  }

  private show(sent: number, total: number): void {
    this.submit.disabled = this.sending !== null;
    if (!this.sending) return replace(this.progress);
    const bar = this.progress.querySelector("progress");
    const text = `Sending ${bytes(sent)} of ${bytes(total)}`;
    if (bar) {
      bar.max = Math.max(1, total);
      bar.value = sent;
      this.progress.querySelector("p")!.textContent = text;
      return;
    }
    replace(
      this.progress,
      h("p", { class: "muted" }, text),
      h("progress", { max: Math.max(1, total), value: sent, "aria-label": "Sent" }),
      h("button", { type: "button", onclick: () => this.sending?.abort() }, "Cancel"),
    );
  }

  update(): void {
    const { models } = this.app;
    const model = this.inputs.model as HTMLSelectElement;
    this.badge.update(models, model.value);
    if (model.options.length === models.length) return;
    replace(
      model,
      models.map(({ name }) => h("option", { value: name }, name)),
    );
  }

  focus(): void {
    this.file.focus();
  }
}
