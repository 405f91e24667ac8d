// The left side: the text to analyse, how, and the thresholds and token options that hold for every view.
import type { Answer } from "./answer";
import type { App } from "./app";
import { h, replace, select, slider, toggle, write } from "./dom";
import { EXAMPLES } from "./examples";
import { fieldOf, type FieldName } from "./problems";
import { axisOf } from "./lens";
import { MAPS, type MapName } from "./state";
import { PrecisionBadge, precisionOf } from "./precision";
import { visible } from "./visible";

const ALL = { special: true, words: false };

export class Panel {
  readonly element: HTMLDetailsElement;
  private readonly text = h("textarea", { id: "text", rows: 9, spellcheck: "false" });
  private readonly pair = h("textarea", { id: "pair", rows: 3, spellcheck: "false" });
  private readonly pairBox = h("details", { class: "more" }, h("summary", {}, "Second segment"), this.pair);
  private readonly model = h("select", { id: "model" });
  private readonly badge = new PrecisionBadge();
  private readonly max = h("input", { id: "max", type: "number", inputmode: "numeric", min: 2 });
  private readonly literal;
  private readonly tau;
  private readonly atau;
  private readonly hide;
  private readonly words;
  private readonly positions;
  private readonly map;
  private readonly facts = h("p", { class: "muted facts-line" });
  private readonly excerpt = h("span", { class: "excerpt" });
  private readonly submit = h("button", { type: "submit", class: "primary" }, "Analyse");
  private readonly errors = new Map<FieldName, HTMLElement>();
  private shown = "";
  private told: Answer | null = null; // whose facts are there

  constructor(private readonly app: App) {
    this.literal = toggle(
      "[MASK] and the like are plain text",
      "split_special_tokens: special tokens written in the text are not recognised",
      () => this.edited(),
    );
    this.tau = slider(
      "Similarity τ",
      "A pair is high when its similarity reaches this share of the head's maximum",
      0.05,
      1,
      0.01,
      (tau) => app.set({ tau }),
    );
    this.atau = slider(
      "Attention τ",
      "A token gathers attention when its column sum reaches this share of the largest",
      0.05,
      1,
      0.01,
      (atau) => app.set({ atau }),
    );
    this.hide = toggle("Hide special tokens", "[CLS] and [SEP] hidden and left out of every figure", (on) =>
      app.set({ special: !on }),
    );
    this.words = toggle(
      "Merge word pieces",
      "Attention to a word is the sum over its pieces, from it their mean",
      (words) => app.set({ words }),
    );
    this.positions = toggle("Positions beside tokens", "Each token of a map with its place in the text", (positions) =>
      app.set({ positions }),
    );
    this.map = select(
      "Colours",
      MAPS.map((m) => [m, m[0]!.toUpperCase() + m.slice(1)] as const),
      (map) => app.set({ map: map as MapName }),
    );
    const form = h(
      "form",
      {
        onsubmit: (e: Event) => {
          e.preventDefault();
          this.analyse();
        },
      },
      this.examples(),
      this.field("text", "Text", this.text),
      this.error("pair", this.pairBox, this.pair),
      h(
        "div",
        { class: "two" },
        h("div", { class: "badged" }, this.field("model", "Model", this.model), this.badge.element),
        this.field("max", "Tokens at most", this.max),
      ),
      this.literal.element,
      h("div", { class: "submit" }, this.submit, h("kbd", {}, "Ctrl ↵")),
      this.facts,
    );
    this.element = h(
      "details",
      { class: "panel", open: matchMedia("(min-width: 901px)").matches },
      h("summary", {}, h("span", {}, "Text and options"), this.excerpt),
      form,
      h(
        "div",
        { class: "group" },
        h("h2", {}, "Thresholds"),
        this.error("tau", this.tau.element),
        this.error("atau", this.atau.element),
      ),
      h("div", { class: "group" }, h("h2", {}, "Display"), this.hide.element, this.words.element, this.positions.element, this.map.element),
    );
    for (const field of [this.text, this.pair, this.max]) field.addEventListener("input", () => this.edited());
    this.model.addEventListener("change", () => this.analyse());
    form.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) this.analyse();
    });
  }

  focus(): void {
    this.element.open = true;
    this.text.focus();
  }

  private examples(): HTMLElement {
    const list = h(
      "select",
      {
        onchange: () => {
          const example = EXAMPLES[Number(list.value)];
          if (!example) return;
          this.text.value = example.text;
          this.pair.value = example.pair ?? "";
          this.analyse();
        },
      },
      h("option", { value: "" }, "Examples…"),
      EXAMPLES.map(({ name }, n) => h("option", { value: n }, name)),
    );
    list.setAttribute("aria-label", "Examples");
    return h("div", { class: "examples" }, h("h2", {}, "Text"), list);
  }

  private field(name: FieldName, label: string, input: HTMLElement): HTMLElement {
    return this.error(
      name,
      h("label", { class: `field${name === "text" ? " bare" : ""}` }, h("span", {}, label), input),
      input,
    );
  }

  // The place for a problem beside its field.
  private error(
    name: FieldName,
    field: HTMLElement,
    input: Element | null = field.querySelector("input"),
  ): HTMLElement {
    const message = h("p", { class: "error", id: `error-${name}`, hidden: true });
    input?.setAttribute("aria-describedby", message.id);
    this.errors.set(name, message);
    return h("div", {}, field, message);
  }

  private edited(): void {
    this.submit.classList.toggle("waiting", this.draft() !== this.shown);
  }

  private draft(): string {
    return JSON.stringify([this.text.value, this.pair.value, this.max.value, this.isLiteral()]);
  }
  private isLiteral(): boolean {
    return this.literal.element.querySelector("input")!.checked;
  }

  // The server's first model goes unnamed, so that links follow a server's default.
  private chosenModel(): string {
    return this.model.value === this.app.models[0]?.name ? "" : this.model.value;
  }

  private analyse(): void {
    const { state } = this.app;
    const max = this.max.value.trim() === "" ? state.max : Number(this.max.value);
    const next = {
      text: this.text.value,
      pair: this.pair.value,
      model: this.chosenModel(),
      max,
      literal: this.isLiteral(),
    };
    const same = next.text === state.text && next.pair === state.pair;
    this.app.set({ ...next, ...(same ? {} : { pin: [], sel: [], zoom: [], at: -1 }) }, true);
  }

  update(): void {
    const { state, models } = this.app;
    this.tau.set(state.tau);
    this.atau.set(state.atau);
    this.hide.set(!state.special);
    this.words.set(state.words);
    this.positions.set(state.positions);
    this.map.set(state.map);
    if (this.model.options.length !== models.length)
      replace(
        this.model,
        models.map(({ name }) => h("option", { value: name }, name)),
      );
    this.model.value = state.model || models[0]?.name || "";
    this.badge.update(models, state.model);
    const precision = precisionOf(models, state.model);
    write(this.excerpt, (precision && `${precision} · `) + visible(state.text.slice(0, 60)));
    const shown = JSON.stringify([state.text, state.pair, String(state.max), state.literal]);
    if (shown !== this.shown) this.fill(shown);
    this.tellFacts();
    this.tellProblem();
  }

  private fill(shown: string): void {
    const { state } = this.app;
    this.shown = shown;
    this.text.value = state.text;
    this.pair.value = state.pair;
    this.pairBox.open ||= state.pair !== "";
    this.max.value = String(state.max);
    this.literal.set(state.literal);
    this.edited();
  }

  private tellFacts(): void {
    const answer = this.app.overview().answer;
    const ms = answer ? Object.values(answer.timing).reduce((a, b) => a + b, 0) : 0;
    const unknown = answer ? axisOf(answer.encoding, ALL).unknown.filter(Boolean).length : 0;
    if (this.told === answer) return;
    this.told = answer;
    replace(
      this.facts,
      answer && [
        `${answer.encoding.ids.length} tokens`,
        answer.truncated ? h("strong", {}, " (cut)") : null,
        unknown > 0 && h("strong", {}, ` · ${unknown} unknown`),
        ` · ${answer.layers.length} × ${answer.heads.length} heads`,
        ms > 0 ? ` · ${ms.toFixed(0)} ms` : "",
      ],
    );
  }

  private tellProblem(): void {
    const entry = this.app.overview();
    const named = entry.problem ? fieldOf(entry.problem.pointer) : null;
    for (const [name, message] of this.errors) {
      const wrong = name === named;
      message.hidden = !wrong;
      message.textContent = wrong ? entry.problem!.detail : "";
      const input = this.element.querySelector(`[aria-describedby="${message.id}"]`);
      if (wrong) input?.setAttribute("aria-invalid", "true");
      else input?.removeAttribute("aria-invalid");
    }
  }
}
