// Two heads, two texts or two models side by side, and their difference on a diverging scale.
import { nameOf, type App, type Selection } from "../app";
import type { Head } from "../analysis";
import type { Answer } from "../answer";
import type { Entry } from "../cache";
import { Changes, type ChangedSide } from "../changes";
import { h, replace, segmented } from "../dom";
import type { Exportable } from "../export";
import { HeadPicker } from "../head-picker";
import { MapTrio, type Heading, type Pair } from "../map-trio";
import { withHeads } from "../picture-heads";
import { overviewRequest, savedRequest, secondState, type AnalyzeRequest, type Asked } from "../requests";
import { format } from "../scale";
import { INITIAL, SUM, type Against, type Scale, type State } from "../state";
import { statusOf } from "../status";
import { pictureOf } from "../surface";

const WORDING = {
  labels: { first: "First map", second: "Second map", both: "Difference map" },
  short: { first: "first", second: "second", both: "difference" },
  forward: false,
};

export class CompareView {
  readonly element: HTMLElement;
  private readonly trio: MapTrio;
  private readonly pickers: { first: HeadPicker; second: HeadPicker; off: HeadPicker };
  private readonly changes: Changes;
  private readonly controls;
  private readonly text = h("textarea", { rows: 4, spellcheck: "false", "aria-label": "Second text" });
  private readonly segment = h("textarea", { rows: 4, spellcheck: "false", "aria-label": "Second segment of the second text" });
  private readonly segmentField = h("label", { class: "field" }, h("span", {}, "Its second segment"), this.segment);
  private readonly textForm: HTMLElement;
  private readonly model = h("select", { onchange: () => this.app.set({ model2: this.model.value }, true) });
  private readonly modelField = h("label", { class: "field" }, h("span", {}, "Second model"), this.model);
  private readonly status = h("div");
  private readonly facts = h("dl", { class: "facts" });
  private readonly table = h("div", { class: "extremes" });

  constructor(private readonly app: App) {
    this.pickers = {
      first: new HeadPicker(app, "First: layer", (layer, head) => app.set({ layer, head }, true), () => [app.state.what]),
      second: new HeadPicker(app, "Second: layer", (layer2, head2) => app.set({ layer2, head2 }, true), () => [app.state.what]),
      off: new HeadPicker(app, "Switched off: layer", (layer2, head2) => app.set({ layer2, head2 }, true), () => [app.state.what]),
    };
    this.changes = new Changes(app);
    this.controls = {
      against: segmented<Against>(
        "Compare with",
        [
          { value: "head", label: "Another head" },
          { value: "text", label: "Another text" },
          { value: "model", label: "Another model" },
          { value: "off", label: "A head switched off" },
        ],
        (against) => app.set({ against }, true),
      ),
      what: segmented<State["what"]>(
        "Map",
        [
          { value: "similarity", label: "Similarity N" },
          { value: "attention", label: "Attention" },
        ],
        (what) => app.set({ what }),
      ),
      scale: segmented<Scale>(
        "Scale",
        [
          { value: "linear", label: "Linear" },
          { value: "log", label: "Log" },
          { value: "row", label: "Per row" },
        ],
        (scale) => app.set({ scale }),
      ),
    };
    this.textForm = h(
      "form",
      {
        class: "second-text",
        onsubmit: (e: Event) => {
          e.preventDefault();
          app.set({ text2: this.text.value, pair2: this.segment.value }, true);
        },
      },
      h("label", { class: "field" }, h("span", {}, "Second text: change a word of the first, say"), this.text),
      this.segmentField,
      h("button", { type: "submit", class: "primary" }, "Compare"),
    );
    this.trio = new MapTrio(app, WORDING, ({ attention, normalized }) =>
      app.state.what === "attention" ? attention : normalized,
    );
    this.element = h(
      "section",
      { class: "view compare", "aria-label": "Compare" },
      h(
        "div",
        { class: "toolbar" },
        this.controls.against.element,
        this.controls.what.element,
        this.controls.scale.element,
      ),
      this.textForm,
      h("div", { class: "toolbar" }, this.pickers.first.element, this.modelField, this.pickers.second.element, this.pickers.off.element),
      this.status,
      this.trio.element,
      this.facts,
      this.changes.element,
      this.table,
    );
  }

  private sides(): { first: Entry; second: Entry | null; selections: [Selection, Selection]; other: Asked } {
    const { app } = this;
    const { state } = app;
    const other = secondState(state);
    const selections: [Selection, Selection] = [app.selection(app.overview().answer), this.secondSelection(other)];
    const missing =
      (state.against === "text" && state.text2 === "") || (state.against === "model" && app.models.length < 2);
    return {
      first: app.exactly(state, selections[0]),
      second: missing ? null : app.exactly(other, selections[1]),
      selections,
      other,
    };
  }

  // Another text is seen through the same head; another head or model has a choice of its own.
  private secondSelection(other: Asked): Selection {
    const { app } = this;
    const { against, layer2, head2, model, model2 } = app.state;
    if (against === "text" || against === "off") return app.selection(app.overview().answer);
    const answer =
      against === "model" ? app.cache.want(overviewRequest(other, INITIAL.tau)).answer : app.overview().answer;
    return app.selection(answer, { layer: layer2, head: head2 }, against === "model" ? model2 : model);
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    this.controls.against.set(state.against);
    this.controls.what.set(state.what);
    this.controls.scale.set(state.scale);
    this.textForm.hidden = state.against !== "text";
    if (document.activeElement !== this.text) this.text.value = state.text2 || state.text;
    this.segmentField.hidden = !state.pair && !state.pair2;
    if (document.activeElement !== this.segment) this.segment.value = state.text2 ? state.pair2 : state.pair;
    this.modelField.hidden = state.against !== "model";
    if (this.model.options.length !== app.models.length)
      replace(
        this.model,
        app.models.map(({ name }) => h("option", { value: name }, name)),
      );
    this.model.value = state.model2 || app.models[0]?.name || "";
    const { first, second, selections, other } = this.sides();
    this.pickers.first.update(app.overview().answer, selections[0]);
    this.pickers.second.element.hidden = state.against === "text" || state.against === "off";
    this.pickers.off.element.hidden = state.against !== "off";
    const overview = app.overview().answer;
    this.pickers.off.update(overview, app.selection(overview, { layer: state.layer2, head: state.head2 }));
    const shape =
      state.against === "model"
        ? app.cache.want(overviewRequest(other, INITIAL.tau)).answer
        : app.overview().answer;
    this.pickers.second.update(shape, selections[1]);
    const waiting = [first, second].find((entry) => entry && entry.status !== "ready");
    replace(this.status, waiting ? statusOf(app, waiting) : second ? null : this.explainMissing());
    const ready = first.answer && second?.answer;
    this.facts.hidden = this.table.hidden = !ready;
    if (!ready) {
      this.changes.element.hidden = true;
      return this.trio.hide();
    }
    this.trio.show(app.exactHead(first.answer!), app.exactHead(second!.answer!), (pair) =>
      this.heading(pair, selections, other),
    );
    this.describe(this.trio.pair!);
    this.rank(other);
  }

  private rank(other: Asked): void {
    const { app } = this;
    const { first, second, shared } = this.trio.pair!;
    const side = (overview: Answer | null, asked: Asked, { axis }: Head): ChangedSide | null =>
      overview && { overview, asked, axis };
    const { changes, against } = app.state;
    const wanted = changes && against !== "head" ? app.cache.want(overviewRequest(other, INITIAL.tau)).answer : null;
    const one = app.overview().answer;
    // Closed it needs nothing of the other side but to be offered.
    this.changes.update(side(one, app.state, first), side(changes ? wanted : one, other, second), shared);
  }

  private explainMissing(): HTMLElement {
    const { state } = this.app;
    return h(
      "div",
      { class: "notice" },
      state.against === "text"
        ? h("p", {}, "Write the second text above, then Compare. The first text stands there to begin with.")
        : h(
            "p",
            {},
            "This server has one model. Start it with ",
            h("kbd", {}, "--model NAME=DIR"),
            " given twice to compare two.",
          ),
    );
  }

  private heading({ first, second, shared }: Pair, [a, b]: [Selection, Selection], other: State): Heading {
    const { state, models } = this.app;
    const head = ({ layer, head: k }: Selection): string =>
      `Layer ${layer} · ${k === SUM ? "all heads" : `head ${k}`}`;
    const model = (s: State): string => s.model || models[0]?.name || "";
    const own = (h0: Head, s: State, which: string): string =>
      `${this.sideName(which, model(s))} · ${h0.axis.n} tokens`;
    const n = shared.first.length;
    const whole = n === first.axis.n && n === second.axis.n;
    return {
      first: { title: head(a), note: own(first, state, "first") },
      second: { title: head(b), note: own(second, other, "second") },
      both: { title: "Difference", note: whole ? "amber: first, blue: second" : `the ${n} tokens that correspond` },
    };
  }

  private sideName(which: string, model: string): string {
    const { against, layer2, head2 } = this.app.state;
    if (against === "text") return `${which} text`;
    if (against !== "off") return model;
    return which === "first" ? "as it is" : `${head2 === SUM ? "all heads" : `head ${head2}`} of layer ${layer2} switched off`;
  }

  private described: Pair | null = null;
  private describe(pair: Pair): void {
    if (this.described === pair) return;
    this.described = pair;
    const { first, second, shared, delta } = pair;
    const n = shared.first.length;
    const changed = shared.first.filter((t, k) => first.axis.labels[t] !== second.axis.labels[shared.second[k]!]).length;
    const order = [...delta.keys()].sort((a, b) => Math.abs(delta[b]!) - Math.abs(delta[a]!)).slice(0, 8);
    const mean = delta.length ? delta.reduce((sum, v) => sum + Math.abs(v), 0) / delta.length : NaN;
    const term = (name: string, value: string): HTMLElement => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    replace(
      this.facts,
      term("Tokens compared", changed ? `${n}, ${changed} of them changed` : String(n)),
      term("Mean |difference|", format(mean)),
      term("Correlation", format(this.correlation(pair))),
    );
    const label = (k: number): string =>
      `${first.axis.labels[shared.first[k]!]} ${first.axis.positions[shared.first[k]!]}`;
    replace(
      this.table,
      h(
        "table",
        {},
        h("caption", {}, "Largest differences, first − second"),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Row", "Column", "First − second"].map((name) => h("th", { scope: "col" }, name)),
          ),
        ),
        h(
          "tbody",
          {},
          order.map((k) =>
            h(
              "tr",
              {},
              h("td", {}, label(Math.floor(k / n))),
              h("td", {}, label(k % n)),
              h("td", { class: "number" }, (delta[k]! > 0 ? "+" : "") + format(delta[k])),
            ),
          ),
        ),
      ),
    );
  }

  exportable(): Exportable | null {
    const { first, second: other, selections } = this.sides();
    if (!this.trio.pair || !first.answer || !other?.answer) return null;
    const ask = (state: Asked, { layer, head }: Selection): AnalyzeRequest =>
      savedRequest(state, [layer], head, ["attentions", "similarities", "head_outputs", "summary"]);
    const { state } = this.app;
    const request = ask(state, selections[0]);
    const made = this.app.exported(first.answer, `compare-${nameOf(selections[0])}-${nameOf(selections[1])}`, request);
    const seen = {
      ...made,
      provenance: { ...made.provenance, second: ask(secondState(state), selections[1]) },
      picture: pictureOf(this.trio.drawn, made.title),
      rows: () => this.trio.rows(),
    };
    return withHeads(seen, this.changes.shown);
  }

  // Pearson's, over the cells both have.
  private correlation({ second, shared, delta }: Pair): number {
    const n = shared.first.length,
      cells = n * n;
    if (cells < 2) return NaN;
    const map = this.app.state.what === "attention" ? second.attention : second.normalized;
    let sx = 0,
      sy = 0,
      sxx = 0,
      syy = 0,
      sxy = 0;
    for (let k = 0; k < cells; k++) {
      const y = map[shared.second[Math.floor(k / n)]! * second.axis.n + shared.second[k % n]!]!;
      const x = delta[k]! + y;
      sx += x;
      sy += y;
      sxx += x * x;
      syy += y * y;
      sxy += x * y;
    }
    return (cells * sxy - sx * sy) / Math.sqrt((cells * sxx - sx * sx) * (cells * syy - sy * sy));
  }
}
