// Two heads, two texts or two models side by side, and their difference on a diverging scale.
import { nameOf, type App, type Selection } from "../app";
import { labelsOf, type Head } from "../analysis";
import { align, difference, type Alignment } from "../align";
import type { Answer } from "../answer";
import type { Entry } from "../cache";
import { Changes, type ChangedSide } from "../changes";
import { colourBar } from "../colourbar";
import { h, replace, segmented } from "../dom";
import type { Exportable } from "../export";
import { HeadPicker } from "../head-picker";
import { Heatmap, type Cell, type HeatmapContent } from "../heatmap";
import { entryOf } from "../lens";
import { headRequest, overviewRequest, savedRequest, secondState, type AnalyzeRequest, type Asked } from "../requests";
import { format } from "../scale";
import { differenceShade, shadeOf, type Shade } from "../shade";
import { INITIAL, SIDES, SUM, type Against, type Scale, type Side, type State } from "../state";
import { statusOf } from "../status";
import { pictureOf, type Plate } from "../surface";
import { Viewport } from "../viewport";

const NAMES: Record<Side, string> = { first: "First map", second: "Second map", both: "Difference map" };
interface Pair {
  first: Head;
  second: Head;
  shared: Alignment;
  delta: Float32Array;
}

export class CompareView {
  readonly element: HTMLElement;
  readonly views: Record<Side, Viewport> = { first: new Viewport(), second: new Viewport(), both: new Viewport() };
  readonly maps: Record<Side, Heatmap>;
  private readonly bars: Record<Side, HTMLElement> = { first: h("div"), second: h("div"), both: h("div") };
  private readonly titles: Record<Side, HTMLElement> = { first: h("h2"), second: h("h2"), both: h("h2") };
  private readonly notes: Record<Side, HTMLElement>;
  private readonly pickers: { first: HeadPicker; second: HeadPicker; off: HeadPicker };
  private readonly changes: Changes;
  private readonly controls;
  private readonly text = h("textarea", { rows: 4, spellcheck: "false", "aria-label": "Second text" });
  private readonly segment = h("textarea", { rows: 2, spellcheck: "false", "aria-label": "Second segment of the second text" });
  private readonly segmentField = h("label", { class: "field" }, h("span", {}, "Its second segment"), this.segment);
  private readonly textForm: HTMLElement;
  private readonly model = h("select", { onchange: () => this.app.set({ model2: this.model.value }, true) });
  private readonly modelField = h("label", { class: "field" }, h("span", {}, "Second model"), this.model);
  private readonly status = h("div");
  private readonly plates: HTMLElement;
  private readonly facts = h("dl", { class: "facts" });
  private readonly table = h("div", { class: "extremes" });
  private readonly contents: Partial<Record<Side, HeatmapContent & Shade>> = {};
  private pair: Pair | null = null;
  private hovered: { side: Side; cell: Cell } | null = null;
  private shown = "";
  private linking = false;

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
    this.maps = { first: this.heatmap("first"), second: this.heatmap("second"), both: this.heatmap("both") };
    this.notes = {
      first: h("p", { class: "muted" }),
      second: h("p", { class: "muted" }),
      both: h("p", { class: "muted" }),
    };
    const plate = (side: Side): HTMLElement =>
      h(
        "figure",
        { class: "plate" },
        h("figcaption", {}, h("div", {}, this.titles[side], this.notes[side]), this.bars[side]),
        this.maps[side].element,
      );
    this.plates = h("div", { class: "plates three" }, plate("first"), plate("second"), plate("both"));
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
      this.plates,
      this.facts,
      this.changes.element,
      this.table,
    );
    for (const side of SIDES) this.views[side].watch(() => this.link(side));
  }

  // Maps of equal size move together.
  private link(from: Side): void {
    if (this.linking) return;
    this.linking = true;
    const { n, x, y, span } = this.views[from];
    for (const view of Object.values(this.views))
      if (view !== this.views[from] && view.n === n) view.show(x, y, span);
    this.linking = false;
    if (this.pair && this.element.isConnected) this.app.settle({ zoom: this.views.first.state });
  }

  // The head whose tokens a map's cells are counted in, and a cell's entry on that head's axis.
  private home(side: Side): Head {
    return side === "second" ? this.pair!.second : this.pair!.first;
  }
  private own(side: Side, t: number): number {
    return side === "both" ? this.pair!.shared.first[t]! : t;
  }

  private held(): { side: Side; cell: Cell } | null {
    const { pin, side } = this.app.state;
    if (!this.pair || pin.length !== 2) return null;
    const entries = pin.map((t) => entryOf(this.home(side).axis, t));
    const cell = side === "both" ? entries.map((t) => this.pair!.shared.first.indexOf(t)) : entries;
    return cell.every((t) => t >= 0) ? { side, cell: [cell[0]!, cell[1]!] } : null;
  }

  private heatmap(side: Side): Heatmap {
    const { app } = this;
    return new Heatmap(NAMES[side], this.views[side], {
      hover: (cell) => {
        this.hovered = cell && { side, cell };
        this.hover(this.hovered, false);
      },
      pick: (cell) => {
        const { axis } = this.home(side);
        app.set({ side, pin: cell.map((t) => axis.groups[this.own(side, t)]![0]!) });
        this.hover({ side, cell }, true);
      },
    });
  }

  private sides(): { first: Entry; second: Entry | null; selections: [Selection, Selection]; other: Asked } {
    const { app } = this;
    const { state } = app;
    const other = secondState(state);
    const selections: [Selection, Selection] = [app.selection(app.overview().answer), this.secondSelection(other)];
    const missing =
      (state.against === "text" && state.text2 === "") || (state.against === "model" && app.models.length < 2);
    return {
      first: app.cache.want(headRequest(state, selections[0].layer, selections[0].head)),
      second: missing ? null : app.cache.want(headRequest(other, selections[1].layer, selections[1].head)),
      selections,
      other,
    };
  }

  // Another text is seen through the same head; another head or model has a choice of its own.
  private secondSelection(other: Asked): Selection {
    const { app } = this;
    const { against, layer, head, layer2, head2 } = app.state;
    if (against === "text" || against === "off") return app.selection(app.overview().answer, layer, head);
    const answer =
      against === "model" ? app.cache.want(overviewRequest(other, INITIAL.tau)).answer : app.overview().answer;
    return app.selection(answer, layer2, head2);
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
    this.pickers.off.update(overview, app.selection(overview, state.layer2, state.head2));
    const shape =
      state.against === "model"
        ? app.cache.want(overviewRequest(other, INITIAL.tau)).answer
        : app.overview().answer;
    this.pickers.second.update(shape, selections[1]);
    const waiting = [first, second].find((entry) => entry && entry.status !== "ready");
    replace(this.status, waiting ? statusOf(app, waiting) : second ? null : this.explainMissing());
    const ready = first.answer && second?.answer;
    this.plates.hidden = this.facts.hidden = this.table.hidden = !ready;
    if (!ready) {
      this.changes.element.hidden = true;
      return void (this.pair = null);
    }
    this.draw(app.exactHead(first.answer!), app.exactHead(second!.answer!), selections, other);
    this.rank(other);
  }

  private rank(other: Asked): void {
    const { app } = this;
    const { first, second, shared } = this.pair!;
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

  private draw(first: Head, second: Head, selections: [Selection, Selection], other: State): void {
    const { state, theme } = this.app;
    const key = [state.what, state.scale, state.map, state.positions, theme].join(" ");
    if (this.pair?.first === first && this.pair.second === second && this.shown === key) {
      for (const side of SIDES) this.views[side].follow(this.views[side].n, state.zoom);
      return this.hover(this.hovered, false);
    }
    this.shown = key;
    const values = (head: Head): Float32Array => (state.what === "attention" ? head.attention : head.normalized);
    // By their text: two models may number tokens differently.
    const shared = align(first.axis.labels, second.axis.labels);
    const delta = difference(values(first), first.axis.n, values(second), second.axis.n, shared);
    this.pair = { first, second, shared, delta };
    const both = [values(first), values(second)];
    this.side("first", first, both[0]!, both);
    this.side("second", second, both[1]!, both);
    this.difference(first, second, shared, delta);
    this.name(selections, other);
    this.describe();
    this.hover(null, false);
  }

  // Both sides' colours mean the same.
  private side(side: "first" | "second", head: Head, values: Float32Array, both: readonly Float32Array[]): void {
    const { state, theme } = this.app;
    const { axis } = head;
    this.views[side].follow(axis.n, state.zoom);
    const shade = shadeOf(values, axis.n, state.what, { ...state, theme }, both);
    this.show(side, { ...shade, n: axis.n, labels: labelsOf(axis, state.positions), faint: axis.special });
  }

  private show(side: Side, content: HeatmapContent & Shade): void {
    this.maps[side].show(content);
    this.contents[side] = content;
    replace(this.bars[side], colourBar({ ...content, label: NAMES[side] }));
  }

  private get drawn(): Plate[] {
    return SIDES.flatMap((side) => {
      const shown = this.contents[side];
      if (!shown?.n) return [];
      const { x, y, span } = this.views[side];
      const held = this.held();
      return [
        {
          ...shown,
          held: held?.side === side ? held.cell : null,
          title: this.titles[side].textContent!,
          window: { x, y, span },
        },
      ];
    });
  }

  private difference(first: Head, second: Head, shared: Alignment, delta: Float32Array): void {
    const { state, theme } = this.app;
    const n = shared.first.length;
    this.views.both.follow(n, state.zoom);
    this.show("both", {
      ...differenceShade(delta, n, { ...state, theme }),
      n,
      labels: shared.first.map((t, k) => {
        const [was, is] = [labelsOf(first.axis, state.positions)[t]!, second.axis.labels[shared.second[k]!]!];
        return first.axis.labels[t] === is ? was : `${was}→${is}`;
      }),
      faint: shared.first.map((t) => first.axis.special[t]!),
    });
  }

  private name([a, b]: [Selection, Selection], other: State): void {
    const { state, models } = this.app;
    const { first, second, shared } = this.pair!;
    const head = ({ layer, head: k }: Selection): string =>
      `Layer ${layer} · ${k === SUM ? "all heads" : `head ${k}`}`;
    const model = (s: State): string => s.model || models[0]?.name || "";
    this.titles.first.textContent = head(a);
    this.titles.second.textContent = head(b);
    this.titles.both.textContent = "Difference";
    const own = (h0: Head, s: State, which: string): string =>
      `${this.sideName(which, model(s))} · ${h0.axis.n} tokens`;
    this.notes.first.textContent = own(first, state, "first");
    this.notes.second.textContent = own(second, other, "second");
    const n = shared.first.length;
    const whole = shared.first.length === first.axis.n && shared.second.length === second.axis.n;
    this.notes.both.textContent = whole ? "amber: first, blue: second" : `the ${n} tokens that correspond`;
  }

  private sideName(which: string, model: string): string {
    const { against, layer2, head2 } = this.app.state;
    if (against === "text") return `${which} text`;
    if (against !== "off") return model;
    return which === "first" ? "as it is" : `${head2 === SUM ? "all heads" : `head ${head2}`} of layer ${layer2} switched off`;
  }

  private describe(): void {
    const { first, second, shared, delta } = this.pair!;
    const n = shared.first.length;
    const changed = shared.first.filter((t, k) => first.axis.labels[t] !== second.axis.labels[shared.second[k]!]).length;
    const order = [...delta.keys()].sort((a, b) => Math.abs(delta[b]!) - Math.abs(delta[a]!)).slice(0, 8);
    const mean = delta.length ? delta.reduce((sum, v) => sum + Math.abs(v), 0) / delta.length : NaN;
    const term = (name: string, value: string): HTMLElement => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    replace(
      this.facts,
      term("Tokens compared", changed ? `${n}, ${changed} of them changed` : String(n)),
      term("Mean |difference|", format(mean)),
      term("Correlation", format(this.correlation())),
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
    const { pair } = this;
    const { first, second: other, selections } = this.sides();
    if (!pair || !first.answer || !other?.answer) return null;
    const { shared, delta } = pair;
    const n = shared.first.length;
    const values = (head: Head): Float32Array =>
      this.app.state.what === "attention" ? head.attention : head.normalized;
    const { axis } = pair.first;
    const rows = (): (string | number)[][] => [
      ["i", "j", "token_i", "token_j", "first", "second", "difference"],
      ...Array.from(delta, (d, k) => {
        const [i, j] = [shared.first[Math.floor(k / n)]!, shared.first[k % n]!];
        return [
          axis.positions[i]!,
          axis.positions[j]!,
          axis.labels[i]!,
          axis.labels[j]!,
          values(pair.first)[i * axis.n + j]!,
          values(pair.first)[i * axis.n + j]! - d,
          d,
        ];
      }),
    ];
    const ask = (state: Asked, { layer, head }: Selection): AnalyzeRequest =>
      savedRequest(state, [layer], head, ["attentions", "similarities", "head_outputs", "summary"]);
    const { state } = this.app;
    const request = ask(state, selections[0]);
    const made = this.app.exported(first.answer, `compare-${nameOf(selections[0])}-${nameOf(selections[1])}`, request);
    return {
      ...made,
      provenance: { ...made.provenance, second: ask(secondState(state), selections[1]) },
      picture: pictureOf(this.drawn, made.title),
      rows,
    };
  }

  // Pearson's, over the cells both have.
  private correlation(): number {
    const { second, shared, delta } = this.pair!;
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

  // One cross-hair over three maps: cells correspond through the tokens both texts have.
  private hover(at: { side: Side; cell: Cell } | null, aloud: boolean): void {
    const { pair } = this;
    if (!pair) return;
    const { first, second, shared } = pair;
    const common = at && at.cell.map((t) => (at.side === "both" ? t : shared[at.side].indexOf(t)));
    const known = common && common.every((t) => t >= 0);
    const on = (side: Side): Cell | null => {
      if (at?.side === side) return at.cell;
      if (!known) return null;
      return (side === "both" ? common : common.map((t) => shared[side][t]!)) as unknown as Cell;
    };
    const held = this.held();
    for (const side of SIDES) this.maps[side].point(on(side), held?.side === side ? held.cell : null);
    const value = (head: Head, cell: Cell | null): string =>
      cell
        ? format(
            (this.app.state.what === "attention" ? head.attention : head.normalized)[
              cell[0] * head.axis.n + cell[1]
            ],
          )
        : "–";
    const home = at?.side === "second" ? second : first;
    const cell = at?.side === "second" ? on("second") : on("first");
    if (!at || !cell) return this.app.readout("");
    const both = on("both");
    this.app.readout(
      [
        `${home.axis.labels[cell[0]]} ${home.axis.positions[cell[0]]} → ${home.axis.labels[cell[1]]} ${home.axis.positions[cell[1]]}`,
        `first ${value(first, on("first"))}`,
        `second ${value(second, on("second"))}`,
        `difference ${both ? format(pair.delta[both[0] * shared.first.length + both[1]]) : "–"}`,
      ].join("   "),
      aloud,
    );
  }
}
