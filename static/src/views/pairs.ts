// High-similarity pairs of one head as a table, in the text beside it, and by distance.
import { nameOf, type App } from "../app";
import type { Axis, Head } from "../analysis";
import { hueOf } from "../colour";
import { h, replace, segmented, perFrame } from "../dom";
import type { Exportable } from "../export";
import { HeadPicker } from "../head-picker";
import { Histogram } from "../histogram";
import { entryOf } from "../lens";
import {
  countAbove,
  pairsOf,
  distanceHistogram,
  distanceOf,
  figuresOf,
  filterPairs,
  orderPairs,
  sameSentence,
  sameToken,
  type PairColumn,
  type Pairs,
} from "../pair-order";
import { withHeads } from "../picture-heads";
import { describeCell } from "../readout";
import { savedRequest } from "../requests";
import { format, percent } from "../scale";
import { SUM, type Answer } from "../state";
import { statusOf } from "../status";
import { Ties } from "../ties";
import { textPicture } from "../surface";
import { flowOf, tokenAt, type Flow } from "../textflow";

const ROW = 28; // CSS px, as in the style sheet
const COLUMNS: readonly { by: PairColumn | null; name: string; title: string; kind: "text" | "number" | "mark" }[] =
  [
    { by: "token_i", name: "Token i", title: "First token", kind: "text" },
    { by: "token_j", name: "Token j", title: "Second token", kind: "text" },
    { by: "i", name: "i", title: "Position of the first", kind: "number" },
    { by: "j", name: "j", title: "Position of the second", kind: "number" },
    { by: null, name: "S", title: "Similarity", kind: "number" },
    { by: "normalized", name: "N", title: "Similarity as a share of the head’s largest", kind: "number" },
    { by: "distance", name: "Dist.", title: "Distance in tokens", kind: "number" },
    { by: "same_token", name: "Same", title: "The same token twice", kind: "mark" },
    { by: "same_sentence", name: "Sent.", title: "Within one sentence", kind: "mark" },
  ];

const YES_NO = [
  { value: "any", label: "Any" },
  { value: "yes", label: "Yes" },
  { value: "no", label: "No" },
] as const;

export class PairsView {
  readonly element: HTMLElement;
  private readonly picker: HeadPicker;
  private readonly find: HTMLInputElement;
  private readonly near: HTMLInputElement;
  private readonly far: HTMLInputElement;
  private readonly same;
  private readonly within;
  private readonly status = h("div");
  private readonly body = h("div", { class: "pairs-body" });
  private readonly caption = h("p", { class: "count", role: "status" });
  private readonly heads: HTMLElement[];
  private readonly rows = h("tbody", {});
  private readonly scroller: HTMLElement;
  private readonly table: HTMLTableElement;
  private readonly text = h("div", { class: "text-side" });
  private readonly ties: Ties;
  private readonly histogram: Histogram;
  private readonly figures = h("dl", { class: "facts" });
  private flow: { axis: Axis; flow: Flow } | null = null;
  private current: { head: Head; pairs: Pairs; order: Uint32Array } | null = null;
  private key = "";

  constructor(private readonly app: App) {
    this.ties = new Ties(app);
    this.picker = new HeadPicker(app, "Layer", (layer, head) => app.set({ layer, head }, true), () => ["similarity"]);
    this.find = h("input", {
      type: "search",
      placeholder: "any token",
      oninput: () => app.set({ find: this.find.value }),
    });
    this.near = h("input", { type: "number", min: 1, oninput: () => this.setDistance() });
    this.far = h("input", { type: "number", min: 1, placeholder: "∞", oninput: () => this.setDistance() });
    this.same = segmented<Answer>("Same token", YES_NO, (same) => app.set({ same }));
    this.within = segmented<Answer>("Same sentence", YES_NO, (within) => app.set({ within }));
    this.heads = COLUMNS.map(({ by, name, title, kind }) =>
      h(
        "th",
        { scope: "col", class: kind, title },
        by ? h("button", { type: "button", onclick: () => this.sortBy(by) }, name) : name,
      ),
    );
    this.table = h(
      "table",
      { class: "pairs sortable" },
      h("caption", { class: "hidden" }, "High-similarity pairs"),
      h("thead", {}, h("tr", {}, this.heads)),
      this.rows,
    );
    this.scroller = h(
      "div",
      {
        class: "scroller",
        tabindex: 0,
        role: "region",
        "aria-label": "Pairs; arrows move, Enter shows the pair",
        onscroll: perFrame(() => this.fillRows()),
      },
      this.table,
    );
    this.scroller.addEventListener("keydown", (e) => this.keydown(e));
    const chart = h("div", { class: "chart", role: "img", "aria-label": "Histogram of distances of high pairs" });
    this.histogram = new Histogram(chart, 150);
    this.body.append(
      h("div", { class: "table-side" }, this.caption, this.scroller),
      h(
        "div",
        { class: "side-by" },
        this.text,
        h(
          "section",
          { class: "card" },
          h("h2", {}, "Distances"),
          h("p", { class: "muted" }, "Bars: pairs shown. Dashed: as many pairs drawn evenly."),
          chart,
        ),
        this.figures,
      ),
    );
    this.element = h(
      "section",
      { class: "view pairs-view", "aria-label": "Pairs" },
      h("div", { class: "toolbar" }, this.picker.element),
      h(
        "div",
        { class: "toolbar" },
        h("label", { class: "field" }, h("span", {}, "Token"), this.find),
        h(
          "div",
          { class: "field range" },
          h("span", {}, "Distance"),
          h("div", {}, this.labelled(this.near, "Distance from"), "to", this.labelled(this.far, "Distance to")),
        ),
        this.same.element,
        this.within.element,
      ),
      this.status,
      this.ties.element,
      this.body,
    );
    this.text.addEventListener("pointerover", (e) => this.point(tokenAt(e.target)));
    this.text.addEventListener("pointerleave", () => this.point(-1));
    this.text.addEventListener("click", (e) => {
      const t = tokenAt(e.target);
      if (t >= 0) app.set({ find: this.flow!.axis.labels[t]! });
    });
  }

  private labelled(input: HTMLInputElement, label: string): HTMLInputElement {
    input.setAttribute("aria-label", label);
    return input;
  }

  private setDistance(): void {
    const read = (input: HTMLInputElement, otherwise: number): number =>
      Number.isInteger(input.valueAsNumber) && input.valueAsNumber > 0 ? input.valueAsNumber : otherwise;
    this.app.set({ near: read(this.near, 1), far: read(this.far, 0) });
  }

  private sortBy(column: PairColumn): void {
    const { order } = this.app.state;
    const fallingFirst = ["normalized", "distance", "same_token", "same_sentence"].includes(column);
    const same = order.replace(/^-/, "") === column;
    const falling = same ? !order.startsWith("-") : fallingFirst;
    this.app.set({ order: (falling ? "-" : "") + column });
    this.scroller.scrollTop = 0;
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    const { head, entry, selection } = app.head();
    this.picker.update(app.overview().answer, selection);
    if (document.activeElement !== this.find) this.find.value = state.find;
    if (document.activeElement !== this.near) this.near.value = String(state.near);
    if (document.activeElement !== this.far) this.far.value = state.far ? String(state.far) : "";
    this.same.set(state.same);
    this.within.set(state.within);
    replace(this.status, head && entry.status === "loading" ? null : statusOf(app, entry));
    this.body.hidden = this.ties.element.hidden = !head;
    if (!head) return;
    const held = state.pin.map((t) => entryOf(head.axis, t)).filter((t) => t >= 0);
    this.ties.update(head.axis, held.length === 2 ? [held[0]!, held[1]!] : null);
    this.select(head, selection.head);
    this.fillRows();
  }

  private select(head: Head, chosen: number): void {
    const { state, theme } = this.app;
    const { axis } = head;
    const key = [
      state.tau,
      state.find,
      state.near,
      state.far,
      state.same,
      state.within,
      state.order,
      theme,
      state.pin,
    ].join("|");
    if (this.current?.head === head && this.key === key) return;
    this.key = key;
    const pairs = pairsOf(head);
    const count = countAbove(pairs, state.tau);
    const kept = filterPairs(pairs, count, axis, state);
    this.current = { head, pairs, order: orderPairs(kept, pairs, axis, state.order) };
    this.caption.textContent =
      `${kept.length.toLocaleString("en")} of ${count.toLocaleString("en")} high pairs` +
      ` · ${chosen === SUM ? "heads summed" : `head ${chosen}`} · N ≥ ${state.tau}`;
    this.heads.forEach((th, c) => {
      const on = state.order.replace(/^-/, "") === COLUMNS[c]!.by;
      if (on) th.setAttribute("aria-sort", state.order.startsWith("-") ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    this.colourText(axis, pairs, kept);
    const chance = axis.positions.map((_, d) => Math.max(0, axis.n - d));
    const all = (axis.n * (axis.n - 1)) / 2;
    this.histogram.show(
      distanceHistogram(pairs, kept, axis),
      chance.map((c) => (c * kept.length) / all),
      theme,
    );
    const f = figuresOf(pairs, kept, axis);
    const term = (name: string, value: string): HTMLElement => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    replace(
      this.figures,
      term("Same token", percent(f.repeated)),
      term("Same sentence", percent(f.sameSentence)),
      term("Mean distance", format(f.meanDistance)),
      term("Commonest token", f.focal ? `${f.focal}  ${percent(f.focalShare)}` : "–"),
    );
  }

  // Fig. 9: every token value that takes part has a colour of its own.
  private colourText(axis: Axis, pairs: Pairs, kept: Uint32Array): void {
    const { state, theme } = this.app;
    if (this.flow?.axis !== axis) {
      this.flow = { axis, flow: flowOf(axis, state.text, state.pair) };
      replace(this.text, this.flow.flow.element);
    }
    const part = new Set<number>();
    for (const k of kept) part.add(pairs.i[k]!).add(pairs.j[k]!);
    const hues = new Map<string, string>();
    for (const t of [...part].sort((a, b) => a - b))
      if (!hues.has(axis.keys[t]!)) hues.set(axis.keys[t]!, hueOf(hues.size, theme));
    const held = state.pin.map((t) => entryOf(axis, t));
    this.flow.flow.tokens.forEach((token, t) => {
      token.style.background = part.has(t) ? hues.get(axis.keys[t]!)! : "";
      token.classList.toggle("apart", !part.has(t));
      token.classList.toggle("held", held.includes(t));
    });
  }

  private point(t: number): void {
    const { current, flow } = this;
    if (!current || !flow) return;
    const { pairs, order } = current;
    const mates = new Set<number>();
    if (t >= 0)
      for (const k of order) {
        if (pairs.i[k] === t) mates.add(pairs.j[k]!);
        else if (pairs.j[k] === t) mates.add(pairs.i[k]!);
      }
    flow.flow.tokens.forEach((token, u) => token.classList.toggle("mate", mates.has(u) || (t >= 0 && u === t)));
    this.app.readout(t < 0 ? "" : `${flow.axis.labels[t]} ${flow.axis.positions[t]}   ${mates.size} pairs`);
  }

  // Only the rows in sight exist; two empty rows stand for the rest.
  private fillRows(): void {
    if (!this.current) return;
    const { head, pairs, order } = this.current;
    const { axis } = head;
    const total = order.length;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 6);
    const last = Math.min(total, first + Math.ceil(this.scroller.clientHeight / ROW) + 12);
    const held = this.heldIndex();
    const space = (rows: number): HTMLElement => {
      const cell = h("td", { colspan: COLUMNS.length });
      cell.style.height = `${rows * ROW}px`;
      return h("tr", { class: "space", "aria-hidden": "true" }, cell);
    };
    const row = (n: number): HTMLElement => {
      const k = order[n]!;
      const i = pairs.i[k]!,
        j = pairs.j[k]!;
      const mark = (is: boolean): HTMLElement =>
        h("td", { class: "mark" }, is ? h("span", { title: "yes" }, "●") : h("span", { class: "hidden" }, "no"));
      return h(
        "tr",
        { "aria-rowindex": n + 2, class: n === held ? "held" : "", onclick: () => this.hold(n) },
        h("td", {}, axis.labels[i]),
        h("td", {}, axis.labels[j]),
        h("td", { class: "number" }, axis.positions[i]),
        h("td", { class: "number" }, axis.positions[j]),
        h("td", { class: "number" }, format(head.similarity[i * axis.n + j])),
        h("td", { class: "number" }, pairs.normalized[k]!.toFixed(3)),
        h("td", { class: "number" }, distanceOf(pairs, k, axis)),
        mark(sameToken(pairs, k, axis)),
        mark(sameSentence(pairs, k, axis)),
      );
    };
    this.table.setAttribute("aria-rowcount", String(total + 1));
    replace(
      this.rows,
      first > 0 && space(first),
      Array.from({ length: last - first }, (_, n) => row(first + n)),
      last < total && space(total - last),
      total === 0 &&
        h(
          "tr",
          {},
          h(
            "td",
            { colspan: COLUMNS.length, class: "empty" },
            "No pair passes. Lower the similarity threshold or widen the filters.",
          ),
        ),
    );
  }

  private heldIndex(): number {
    const { pin } = this.app.state;
    if (pin.length !== 2 || !this.current) return -1;
    const { head, pairs, order } = this.current;
    const [a, b] = pin.map((t) => entryOf(head.axis, t));
    return order.findIndex((k) => pairs.i[k] === a && pairs.j[k] === b);
  }

  private hold(n: number): void {
    const { head, pairs, order } = this.current!;
    const k = order[n]!;
    const cell = [pairs.i[k]!, pairs.j[k]!] as const;
    this.app.set({ pin: cell.map((t) => head.axis.groups[t]![0]!) });
    this.app.readout(describeCell(head, cell), true);
  }

  exportable(): Exportable | null {
    const { entry, selection } = this.app.head();
    if (!this.current || !entry.answer) return null;
    const { head, pairs, order } = this.current;
    const { axis } = head;
    const rows = (): (string | number)[][] => [
      [
        "layer",
        "head",
        "i",
        "j",
        "token_i",
        "token_j",
        "similarity",
        "normalized",
        "distance",
        "same_token",
        "same_sentence",
      ],
      ...Array.from(order, (k) => {
        const i = pairs.i[k]!,
          j = pairs.j[k]!;
        return [
          selection.layer,
          selection.head === SUM ? "sum" : selection.head,
          axis.positions[i]!,
          axis.positions[j]!,
          axis.labels[i]!,
          axis.labels[j]!,
          head.similarity[i * axis.n + j]!,
          pairs.normalized[k]!,
          distanceOf(pairs, k, axis),
          String(sameToken(pairs, k, axis)),
          String(sameSentence(pairs, k, axis)),
        ];
      }),
    ];
    const request = savedRequest(this.app.state, [selection.layer], selection.head, ["pairs", "similarities"]);
    const made = this.app.exported(entry.answer, `pairs-${nameOf(selection)}`, request);
    const canvas = this.histogram.element.querySelector("canvas");
    const charts = canvas ? [{ title: "Distances of the pairs shown; dashed: drawn evenly", canvas }] : [];
    return withHeads({ ...made, picture: textPicture(this.text, this.flow!.flow.tokens, { charts }, made.title), rows }, this.ties.shown);
  }

  private keydown(e: KeyboardEvent): void {
    const total = this.current?.order.length ?? 0;
    const at = this.heldIndex();
    if (e.key === "Enter" && at >= 0) return this.app.set({ view: "head", overlay: "pairs" }, true);
    const steps: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + 15,
      PageUp: at - 15,
      Home: 0,
      End: total - 1,
    };
    if (!(e.key in steps) || !total) return;
    e.preventDefault();
    const to = Math.min(total - 1, Math.max(0, steps[e.key]!));
    this.hold(to);
    const top = to * ROW,
      view = this.scroller.clientHeight - ROW * 2;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + view) this.scroller.scrollTop = top - view;
  }
}
