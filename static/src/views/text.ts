// The text itself: choose tokens and see what they attend to, are attended by and are similar to; pairs as
// arcs, segments as bands, sentences as marks.
import { nameOf, type App } from "../app";
import { segmentsOf, type Axis, type Head, type Segment } from "../analysis";
import { colourBar, type Bar } from "../colourbar";
import { cssOf, inkOn, lutOf, MIDDLE } from "../colour";
import { h, perFrame, replace, segmented, svg, toggle } from "../dom";
import type { Exportable } from "../export";
import { HeadPicker } from "../head-picker";
import { entryOf, headOf } from "../lens";
import { countAbove } from "../pair-order";
import { layerRequest, savedRequest } from "../requests";
import { format, maximumOf, minimumOf, signedTicksOf, sizeOf, ticksOf, wordsOf } from "../scale";
import type { Relation } from "../state";
import { statusOf } from "../status";
import { Ties } from "../ties";
import { textPicture, type Band, type Stroke } from "../surface";
import { flowOf, tokenAt, type Flow } from "../textflow";
import { pairsOf } from "./head";

const ARCS_MAX = 150; // strongest first; more would hide the text
const LINE_LEAST = 0.1; // attention below it is not drawn as a line
const LISTED = 8;

const RELATIONS: Record<Relation, { title: string; quantity: "attention" | "similarity" }> = {
  to: { title: "Attends to", quantity: "attention" },
  from: { title: "Attended by", quantity: "attention" },
  similar: { title: "Similar to", quantity: "similarity" },
};

// How much each entry has to do with the chosen ones, on average; without a choice, with all others.
export function relationOf(head: Head, chosen: readonly number[], relation: Relation): Float64Array {
  const { n } = head.axis;
  const rows = chosen.length ? chosen : Array.from({ length: n }, (_, t) => t);
  const map = relation === "similar" ? head.normalized : head.attention;
  const out = new Float64Array(n);
  for (const t of rows)
    for (let u = 0; u < n; u++) out[u]! += (relation === "from" ? map[u * n + t]! : map[t * n + u]!) / rows.length;
  return out;
}

export class TextView {
  readonly element: HTMLElement;
  private readonly ties: Ties;
  private readonly picker: HeadPicker;
  private readonly relation;
  private readonly toggles;
  private readonly status = h("div");
  private readonly body = h("div", { class: "text-body" });
  private readonly paper = h("div", { class: "paper" });
  private readonly overlay = svg("svg", { class: "arcs", "aria-hidden": "true" });
  private readonly lists = h("div", { class: "lists" });
  private readonly legend = h("div", { class: "legend" });
  private readonly caption = h("p", { class: "muted caption" });
  private readonly capped = h("p", { class: "muted caption", role: "status" });
  private flow: { axis: Axis; flow: Flow } | null = null;
  private head: Head | null = null;
  private segments: readonly Segment[] = [];
  private key = "";
  private pointed = -1;
  private bar: Bar | null = null;
  private readonly redraw = perFrame(() => this.drawOverlay());

  constructor(private readonly app: App) {
    this.ties = new Ties(app);
    this.picker = new HeadPicker(app, "Layer", (layer, head) => app.set({ layer, head }, true), () => [RELATIONS[app.state.relation].quantity]);
    this.relation = segmented<Relation>(
      "Colour the text by",
      [
        { value: "similar", label: "Similar to" },
        { value: "to", label: "Attends to" },
        { value: "from", label: "Attended by" },
      ],
      (relation) => app.set({ relation }),
    );
    this.toggles = {
      arcs: toggle("Lines", "High-similarity pairs, or attention when the text is coloured by it; strongest first", (arcs) => app.set({ arcs })),
      bands: toggle(
        "Segments",
        "Parts of the text between tokens that gather attention, coloured by cohesion",
        (bands) => app.set({ bands }),
      ),
      sentences: toggle("Sentences", "A mark where a sentence begins", (sentences) => app.set({ sentences })),
    };
    this.body.append(h("div", { class: "paper-side" }, this.caption, this.paper, this.capped, this.ties.element), this.lists);
    this.element = h(
      "section",
      { class: "view text-view", "aria-label": "Text" },
      h("div", { class: "toolbar" }, this.picker.element),
      h(
        "div",
        { class: "toolbar" },
        this.relation.element,
        Object.values(this.toggles).map((t) => t.element),
        this.legend,
      ),
      this.status,
      this.body,
    );
    this.listen();
  }

  private listen(): void {
    this.paper.addEventListener("click", (e) => {
      const t = tokenAt(e.target);
      if (t >= 0) this.choose(t, e.shiftKey || e.ctrlKey || e.metaKey);
      else if (getSelection()?.isCollapsed !== false) this.app.set({ sel: [] });
    });
    this.paper.addEventListener("pointerover", (e) => this.point(tokenAt(e.target)));
    this.paper.addEventListener("pointerleave", () => this.point(-1));
    this.paper.addEventListener("keydown", (e) => this.keydown(e));
    this.paper.addEventListener("focusin", (e) => this.tell(tokenAt(e.target), true));
    new ResizeObserver(() => this.redraw()).observe(this.paper);
    void document.fonts.ready.then(() => this.redraw());
  }

  private chosen(): number[] {
    const { axis } = this.head!;
    return [...new Set(this.app.state.sel.map((t) => entryOf(axis, t)))].filter((t) => t >= 0);
  }

  private choose(t: number, more: boolean): void {
    const now = this.chosen();
    const next = now.includes(t) ? now.filter((u) => u !== t) : more ? [...now, t] : [t];
    this.app.set({ sel: next.map((u) => this.head!.axis.groups[u]![0]!) });
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    const { head, entry, selection } = app.head();
    this.picker.update(app.overview().answer, selection);
    this.relation.set(state.relation);
    this.toggles.arcs.set(state.arcs);
    this.toggles.bands.set(state.bands);
    this.toggles.sentences.set(state.sentences);
    replace(this.status, head && entry.status === "loading" ? null : statusOf(app, entry));
    this.body.hidden = this.legend.hidden = !head;
    this.head = head;
    if (!head) return;
    const chosen = this.chosen();
    this.ties.update(head.axis, chosen.length === 2 ? [chosen[0]!, chosen[1]!] : null);
    const layer = state.bands ? app.cache.want(layerRequest(state, selection.layer)).answer : null;
    const key = [
      state.relation,
      state.sel,
      state.arcs,
      state.bands,
      state.sentences,
      state.tau,
      state.atau,
      state.map,
      app.theme,
      layer !== null,
    ].join("|");
    if (this.flow?.axis === head.axis && this.key === key) return;
    this.key = key;
    const mean = layer ? headOf(layer, state) : null;
    this.segments = mean ? segmentsOf(mean.attention, mean.similarity, mean.axis, state.atau) : [];
    this.paper.classList.toggle("sentences", state.sentences);
    this.paper.classList.toggle("banded", state.bands);
    this.lay(head);
    this.colour(head);
    this.list(head);
    this.redraw();
  }

  private lay(head: Head): void {
    if (this.flow?.axis === head.axis) return;
    const flow = flowOf(head.axis, this.app.state.text, this.app.state.pair);
    flow.element.setAttribute("role", "listbox");
    flow.element.setAttribute("aria-multiselectable", "true");
    flow.element.setAttribute("aria-label", "Tokens of the text");
    for (const p of flow.element.querySelectorAll("p")) p.setAttribute("role", "group");
    flow.tokens.forEach((token, t) => {
      token.setAttribute("role", "option");
      token.classList.toggle("starts", t > 0 && head.axis.sentences[t] !== head.axis.sentences[t - 1]);
      token.tabIndex = t ? -1 : 0;
    });
    this.flow = { axis: head.axis, flow };
    replace(this.paper, this.overlay, flow.element);
  }

  private colour(head: Head): void {
    const { relation, map } = this.app.state;
    const { quantity, title } = RELATIONS[relation];
    const chosen = this.chosen();
    const values = relationOf(head, chosen, relation);
    const others = values.map((v, t) => (chosen.includes(t) ? 0 : v));
    const low = Math.min(0, minimumOf(others));
    // Similarities below the threshold stay pale, however small their own maximum.
    const top = relation === "similar" ? Math.max(sizeOf(others), this.app.state.tau) : maximumOf(others);
    const lut = lutOf(map, low < 0 ? "signed" : quantity, this.app.theme);
    this.flow!.flow.tokens.forEach((token, t) => {
      const isChosen = chosen.includes(t);
      const share = top > 0 && !isChosen ? values[t]! / top : 0;
      const place = low < 0 ? (MIDDLE + (255 - MIDDLE) * share) / 255 : share;
      const strong = Math.abs(share) > 0.02;
      token.style.background = strong ? cssOf(lut, place) : "";
      token.style.color = strong ? inkOn(lut, place) : "";
      token.classList.toggle("chosen", isChosen);
      token.setAttribute("aria-selected", String(isChosen));
    });
    const names = chosen.map((t) => head.axis.labels[t]).join(", ");
    const whole = {
      to: "Attention each token receives, on average. ",
      from: "Each token’s attention, spread over all. ",
      similar: "Similarity of each token to all others, on average. ",
    }[relation];
    this.caption.textContent = chosen.length ? `${title}: ${names}` : `${whole}Choose a token to ask for it alone.`;
    const ticks = low < 0 ? signedTicksOf(top, "linear") : ticksOf(top, "linear");
    this.bar = { lut, label: title, ticks, words: wordsOf("linear", low, top) };
    replace(this.legend, colourBar(this.bar));
  }

  private list(head: Head): void {
    const chosen = this.chosen();
    const lists = (Object.keys(RELATIONS) as Relation[]).map((relation) => {
      const values = relationOf(head, chosen, relation);
      const order = [...values.keys()].filter((t) => !chosen.includes(t)).sort((a, b) => values[b]! - values[a]!);
      const top = values[order[0] ?? 0] ?? 0;
      return h(
        "section",
        { class: `card ${RELATIONS[relation].quantity}` },
        h("h2", {}, RELATIONS[relation].title),
        h(
          "ol",
          {},
          order.slice(0, LISTED).map((t) => this.listed(head, t, values[t]!, top)),
        ),
      );
    });
    replace(
      this.lists,
      chosen.length
        ? lists
        : [
            h(
              "section",
              { class: "card" },
              h("h2", {}, "No token chosen"),
              h(
                "p",
                { class: "muted" },
                "Click a token; Shift or Ctrl adds another. Then here stands what it attends to, what attends to it and what it is similar to. With two, all heads are ranked by what ties them.",
              ),
            ),
            this.segmentList(head),
          ],
    );
    if (chosen.length) this.lists.append(...[this.segmentList(head)].filter((node) => node !== null));
  }

  private listed(head: Head, t: number, value: number, top: number): HTMLElement {
    const bar = h("i", {});
    bar.style.width = `${top > 0 ? Math.max(0, (value / top) * 100) : 0}%`;
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          onclick: () => this.choose(t, false),
          onpointerenter: () => this.point(t),
          onpointerleave: () => this.point(-1),
        },
        h("span", {}, head.axis.labels[t]),
        h("small", {}, head.axis.positions[t]),
        h("b", {}, format(value)),
        bar,
      ),
    );
  }

  private segmentList(head: Head): HTMLElement | null {
    if (!this.segments.length) return null;
    const words = (s: Segment): string => {
      const labels = head.axis.labels.slice(s.start, s.end);
      return labels.length > 6
        ? `${labels.slice(0, 3).join(" ")} … ${labels.slice(-2).join(" ")}`
        : labels.join(" ");
    };
    return h(
      "section",
      { class: "card" },
      h("h2", {}, "Segments of the layer"),
      h(
        "table",
        { class: "segments" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Tokens"),
            h("th", { scope: "col", class: "number" }, "Cohesion"),
            h("th", { scope: "col", class: "number" }, "To the rest"),
          ),
        ),
        h(
          "tbody",
          {},
          this.segments.map((s) =>
            h(
              "tr",
              {},
              h("td", {}, words(s)),
              h("td", { class: "number" }, format(s.cohesion)),
              h("td", { class: "number" }, format(s.contrast)),
            ),
          ),
        ),
      ),
    );
  }

  // Places are those of the tokens on the page, whatever the line breaks.
  private drawOverlay(): void {
    const { head, flow } = this;
    if (!head || !flow || !this.paper.clientWidth || flow.axis !== head.axis) return;
    const { state } = this.app;
    const origin = this.paper.getBoundingClientRect();
    const boxes = flow.flow.tokens.map((token) => {
      const rects = token.getClientRects();
      const r = rects[0] ?? token.getBoundingClientRect();
      return {
        left: r.left - origin.left,
        right: r.right - origin.left,
        top: r.top - origin.top,
        bottom: r.bottom - origin.top,
      };
    });
    this.overlay.setAttribute("viewBox", `0 0 ${this.paper.clientWidth} ${this.paper.scrollHeight}`);
    this.overlay.setAttribute("width", String(this.paper.clientWidth));
    this.overlay.setAttribute("height", String(this.paper.scrollHeight));
    this.capped.textContent = "";
    replace(this.overlay, state.arcs && this.arcs(head, boxes), state.bands && this.bands(boxes));
  }

  // One strip under every line of a segment; the first says its cohesion.
  private bands(boxes: Box[]): SVGElement[] {
    const lut = lutOf(this.app.state.map, "figure", this.app.theme);
    const top = Math.max(...this.segments.map((s) => s.cohesion), 1e-9);
    return this.segments.flatMap((segment) => {
      const place = 0.06 + 0.44 * Math.max(0, segment.cohesion / top);
      return linesOf(boxes.slice(segment.start, segment.end)).flatMap(({ left, right, bottom }, line) =>
        [
          svg("rect", {
            x: left + 1,
            y: bottom + 4,
            width: Math.max(2, right - left - 2),
            height: 11,
            rx: 2,
            fill: cssOf(lut, place),
          }),
          line === 0 &&
            right - left > 40 &&
            svg(
              "text",
              {
                x: left + 5,
                y: bottom + 10,
                class: "cohesion",
                fill: inkOn(lut, place),
              },
              format(segment.cohesion),
            ),
        ].filter((node) => node !== false),
      );
    });
  }

  // Pairs, or with the text coloured by attention its lines; of the chosen tokens where there are any.
  private arcs(head: Head, boxes: Box[]): SVGElement[] {
    const { relation } = this.app.state;
    const chosen = new Set(this.pointed >= 0 ? [this.pointed] : this.chosen());
    const ends = relation === "similar" ? this.pairEnds(head, chosen) : attentionEnds(head, chosen, relation);
    const what = relation === "similar" ? "pairs" : `attentions of at least ${LINE_LEAST}`;
    this.capped.textContent =
      ends.length > ARCS_MAX ? `Drawn: the ${ARCS_MAX} strongest of ${ends.length.toLocaleString("en")} ${what}.` : "";
    return ends.slice(0, ARCS_MAX).map(({ i, j, value }) => {
      const arc = svg("path", { d: arcPath(boxes[i]!, boxes[j]!), class: `arc ${RELATIONS[relation].quantity}` });
      arc.style.opacity = String(0.2 + 0.7 * value);
      arc.style.strokeWidth = String(0.8 + 1.2 * value);
      return arc;
    });
  }

  private pairEnds(head: Head, chosen: ReadonlySet<number>): End[] {
    const pairs = pairsOf(head);
    return Array.from({ length: countAbove(pairs, this.app.state.tau) }, (_, k) => ({
      i: pairs.i[k]!,
      j: pairs.j[k]!,
      value: pairs.normalized[k]!,
    })).filter(({ i, j }) => !chosen.size || chosen.has(i) || chosen.has(j));
  }

  // The arcs and bands on screen, for the saved picture.
  private strokes(): Stroke[] {
    return [...this.overlay.querySelectorAll<SVGPathElement>(".arc")].map((arc) => ({
      d: arc.getAttribute("d")!,
      colour: getComputedStyle(arc).stroke,
      width: parseFloat(arc.style.strokeWidth),
      opacity: Number(arc.style.opacity),
    }));
  }
  private shownBands(): Band[] {
    return [...this.overlay.querySelectorAll("rect")].map((rect) => {
      const words = rect.nextElementSibling?.matches("text") ? rect.nextElementSibling : null;
      const read = (name: string): number => Number(rect.getAttribute(name));
      return {
        x: read("x"),
        y: read("y"),
        width: read("width"),
        height: read("height"),
        fill: rect.getAttribute("fill")!,
        text: words?.textContent ?? "",
        ink: words?.getAttribute("fill") ?? "",
      };
    });
  }

  private point(t: number): void {
    if (t === this.pointed) return;
    this.pointed = t;
    this.tell(t, false);
    if (this.app.state.arcs) this.redraw();
  }

  private tell(t: number, aloud: boolean): void {
    const { head } = this;
    if (!head || t < 0) return this.app.readout("");
    const chosen = this.chosen();
    const parts = (Object.keys(RELATIONS) as Relation[]).map(
      (r) => `${RELATIONS[r].title.toLowerCase()} ${format(relationOf(head, chosen, r)[t])}`,
    );
    this.app.readout(
      `${head.axis.labels[t]} ${head.axis.positions[t]}   sentence ${head.axis.sentences[t]}   ` +
        (chosen.length ? `chosen: ${parts.join("   ")}` : ""),
      aloud,
    );
  }

  exportable(): Exportable | null {
    const { head } = this;
    const { entry, selection } = this.app.head();
    if (!head || !entry.answer) return null;
    const { axis } = head;
    const chosen = this.chosen();
    const relations = Object.keys(RELATIONS) as Relation[];
    const values = relations.map((r) => relationOf(head, chosen, r));
    const rows = (): (string | number)[][] => [
      [
        "position",
        "token",
        "sentence",
        "chosen",
        ...relations.map((r) => RELATIONS[r].title.toLowerCase().replace(" ", "_")),
      ],
      ...axis.labels.map((label, t) => [
        axis.positions[t]!,
        label,
        axis.sentences[t]!,
        String(chosen.includes(t)),
        ...values.map((v) => v[t]!),
      ]),
    ];
    const outputs = ["attentions", "similarities", "pairs", ...(this.app.state.bands ? (["segments"] as const) : [])] as const;
    const request = savedRequest(this.app.state, [selection.layer], selection.head, [...outputs]);
    const made = this.app.exported(entry.answer, `text-${nameOf(selection)}`, request);
    const around = { strokes: this.strokes(), bands: this.shownBands(), bars: this.bar ? [this.bar] : [] };
    return { ...made, picture: textPicture(this.paper, this.flow!.flow.tokens, around, made.title), rows };
  }

  private keydown(e: KeyboardEvent): void {
    const t = tokenAt(document.activeElement);
    const tokens = this.flow?.flow.tokens;
    if (t < 0 || !tokens) return;
    const goal = {
      ArrowRight: t + 1,
      ArrowDown: t + 1,
      ArrowLeft: t - 1,
      ArrowUp: t - 1,
      Home: 0,
      End: tokens.length - 1,
    }[e.key];
    if (goal !== undefined && tokens[goal]) {
      tokens[t]!.tabIndex = -1;
      tokens[goal]!.tabIndex = 0;
      tokens[goal]!.focus();
    } else if (e.key === " " || e.key === "Enter") this.choose(t, e.shiftKey || e.ctrlKey);
    else if (e.key === "Escape") this.app.set({ sel: [] });
    else return;
    e.preventDefault();
  }
}

interface End {
  i: number;
  j: number;
  value: number; // 0..1
}

// Attention worth a line, strongest first: from the chosen tokens ("to"), to them ("from"), or between any two.
export function attentionEnds({ axis, attention }: Head, chosen: ReadonlySet<number>, relation: "to" | "from"): End[] {
  const ends: End[] = [];
  for (let i = 0; i < axis.n; i++)
    for (let j = 0; j < axis.n; j++) {
      const value = attention[i * axis.n + j]!;
      if (i !== j && value >= LINE_LEAST && (!chosen.size || chosen.has(relation === "to" ? i : j)))
        ends.push({ i, j, value });
    }
  return ends.sort((a, b) => b.value - a.value);
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

// The boxes of neighbouring tokens joined line by line.
function linesOf(boxes: readonly Box[]): Box[] {
  const lines: Box[] = [];
  for (const box of boxes) {
    const line = lines.at(-1);
    if (line && Math.abs(line.bottom - box.bottom) < 8) {
      line.right = Math.max(line.right, box.right);
      line.bottom = Math.max(line.bottom, box.bottom);
    } else lines.push({ ...box });
  }
  return lines;
}

// From top to top: a bow on one line, an S between two.
function arcPath(a: Box, b: Box): string {
  const x1 = (a.left + a.right) / 2,
    x2 = (b.left + b.right) / 2;
  if (Math.abs(a.top - b.top) < 4) {
    const rise = Math.min(17, 5 + Math.abs(x2 - x1) * 0.06);
    return `M${x1} ${a.top} Q${(x1 + x2) / 2} ${a.top - rise * 1.9} ${x2} ${b.top}`;
  }
  const bend = Math.min(60, Math.abs(b.top - a.top) * 0.5);
  return `M${x1} ${a.bottom} C${x1} ${a.bottom + bend} ${x2} ${b.top - bend} ${x2} ${b.top}`;
}
