// The text itself: choose tokens and see what they attend to, are attended by and are similar to; pairs as
// arcs, segments as bands, sentences as marks.
import { nameOf, type App, type Selection } from "../app";
import { arcPath, ARCS_MAX, attentionEnds, drawnEnds, LINE_LEAST, linesOf, pairEnds, type Box, type End } from "../arcs";
import { segmentsOf, type Axis, type Head, type Segment } from "../analysis";
import { colourBar, type Bar } from "../colourbar";
import { cssOf, inkOn, lutOf, MIDDLE } from "../colour";
import { h, perFrame, replace, segmented, svg, toggle } from "../dom";
import type { Exportable } from "../export";
import { HeadPicker } from "../head-picker";
import { entryOf, headOf } from "../lens";
import { laneColour, LineHeads, type LineHead } from "../line-heads";
import { measureControls, measuredRequest, measureNote, sharesOf, weighed } from "../measures";
import { withHeads } from "../picture-heads";
import { layerRequest } from "../requests";
import { format, maximumOf, minimumOf, signedTicksOf, sizeOf, ticksOf, wordsOf } from "../scale";
import { RELATIONS, type Relation } from "../state";
import { statusOf } from "../status";
import { Ties } from "../ties";
import { textPicture, type Band, type Stroke } from "../surface";
import { flowOf, tokenAt, type Flow } from "../textflow";
import { TextLists } from "../text-lists";
import { ABOUT, relationOf } from "../text-relation";

export class TextView {
  readonly element: HTMLElement;
  private readonly ties: Ties;
  private readonly picker: HeadPicker;
  private readonly relation;
  private readonly measures;
  private readonly toggles;
  private readonly status = h("div");
  private readonly body = h("div", { class: "text-body" });
  private readonly paper = h("div", { class: "paper" });
  private readonly overlay = svg("svg", { class: "arcs", "aria-hidden": "true" });
  private readonly lists = new TextLists(
    (t) => this.choose(t, false),
    (t) => this.point(t),
  );
  private readonly lineHeads: LineHeads;
  private readonly legend = h("div", { class: "legend" });
  private readonly caption = h("p", { class: "muted caption" });
  private readonly capped = h("p", { class: "muted caption", role: "status" });
  private flow: { axis: Axis; flow: Flow } | null = null;
  private head: Head | null = null;
  private drawn: LineHead[] = [];
  private segments: readonly Segment[] = [];
  private key = "";
  private pointed = -1;
  private bar: Bar | null = null;
  private readonly redraw = perFrame(() => this.drawOverlay());

  constructor(private readonly app: App) {
    this.ties = new Ties(app);
    this.lineHeads = new LineHeads(app);
    this.picker = new HeadPicker(app, "Layer", (layer, head) => app.set({ layer, head }, true), () => [ABOUT[app.state.relation].quantity]);
    this.relation = segmented<Relation>(
      "Colour the text by",
      [
        { value: "similar", label: "Similar to" },
        { value: "to", label: "Attends to" },
        { value: "from", label: "Attended by" },
      ],
      (relation) => app.set({ relation }),
    );
    this.measures = measureControls(app);
    this.toggles = {
      arcs: toggle("Lines", "High-similarity pairs, or attention when the text is coloured by it; strongest first", (arcs) => app.set({ arcs })),
      bands: toggle(
        "Segments",
        "Parts of the text between tokens that gather attention, coloured by cohesion",
        (bands) => app.set({ bands }),
      ),
      sentences: toggle("Sentences", "A mark where a sentence begins", (sentences) => app.set({ sentences })),
    };
    this.body.append(h("div", { class: "paper-side" }, this.caption, this.paper, this.capped, this.ties.element), this.lists.element);
    this.element = h(
      "section",
      { class: "view text-view", "aria-label": "Text" },
      h("div", { class: "toolbar" }, this.picker.element),
      h(
        "div",
        { class: "toolbar" },
        this.relation.element,
        Object.values(this.toggles).map((t) => t.element),
        this.measures.elements,
        this.legend,
      ),
      this.lineHeads.element,
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
    document.fonts.addEventListener("loadingdone", () => this.redraw());
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
    const { head: measured, entry, selection } = app.head(state);
    const head = measured && weighed(measured, state);
    this.measures.update();
    this.picker.update(app.overview().answer, selection);
    this.relation.set(state.relation);
    this.toggles.arcs.set(state.arcs);
    this.toggles.bands.set(state.bands);
    this.toggles.sentences.set(state.sentences);
    replace(this.status, head && entry.status === "loading" ? null : statusOf(app, entry));
    this.body.hidden = this.legend.hidden = !head;
    this.head = head;
    // Maps weighed by norms are here of the head on screen alone.
    this.lineHeads.element.hidden = !head || !state.arcs || state.relation === "similar" || state.weigh;
    if (!head) return;
    const chosen = this.chosen();
    this.chooseLines(head, selection);
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
      state.weigh,
      state.space,
      app.theme,
      layer !== null,
      this.drawn.map(({ name, attention }) => `${name} ${attention !== null}`),
    ].join("|");
    if (this.flow?.axis === head.axis && this.key === key) return;
    this.key = key;
    const mean = layer ? headOf(layer, state) : null;
    this.segments = mean ? segmentsOf(mean.attention, mean.similarity, mean.axis, state.atau) : [];
    this.paper.classList.toggle("sentences", state.sentences);
    this.paper.classList.toggle("banded", state.bands);
    this.lay(head);
    this.colour(head);
    this.lists.show(head, chosen, this.segments);
    this.redraw();
  }

  private chooseLines(head: Head, selection: Selection): void {
    const { arcs, relation, weigh } = this.app.state;
    if (weigh && arcs && relation !== "similar")
      return void (this.drawn = [{ ...selection, lane: 0, name: nameOf(selection), attention: head.attention }]);
    if (this.lineHeads.element.hidden) return void (this.drawn = []);
    this.drawn = this.lineHeads.of(head.axis, selection, head.attention);
    this.lineHeads.update(this.drawn, selection);
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
    const { quantity, title, whole } = ABOUT[relation];
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
    const shown = this.drawn.find(({ attention }) => attention === head.attention);
    this.caption.textContent =
      (shown && this.drawn.length > 1 ? `Colours of ${shown.name}. ` : "") +
      (chosen.length ? `${title}: ${names}` : `${whole}Choose a token to ask for it alone.`);
    const ticks = low < 0 ? signedTicksOf(top, "linear") : ticksOf(top, "linear");
    this.bar = { lut, label: title + measureNote(quantity, this.app.state), ticks, words: wordsOf("linear", low, top) };
    replace(this.legend, colourBar(this.bar));
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
    const ends = relation === "similar" ? [pairEnds(head, this.app.state.tau, chosen)] : this.lines(head, chosen, relation);
    this.tellCap(ends);
    return drawnEnds(ends).map(({ i, j, value, lane }) => {
      const arc = svg("path", { d: arcPath(boxes[i]!, boxes[j]!, lane), class: `arc ${ABOUT[relation].quantity}`, "data-lane": lane });
      arc.style.opacity = String(0.2 + 0.7 * value);
      arc.style.strokeWidth = String(0.8 + 1.2 * value);
      return arc;
    });
  }

  private lines({ axis }: Head, chosen: ReadonlySet<number>, relation: "to" | "from"): End[][] {
    return this.drawn.map(({ attention, lane }) =>
      attention ? attentionEnds(axis, this.app.state.weigh ? sharesOf(attention) : attention, lane, chosen, relation) : [],
    );
  }

  private tellCap(ends: readonly End[][]): void {
    const { relation } = this.app.state;
    const count = ends.reduce((sum, of) => sum + of.length, 0);
    const bare = relation === "similar" ? [] : this.drawn.filter(({ attention }, lane) => attention && !ends[lane]!.length);
    const least = `${LINE_LEAST}${this.app.state.weigh ? " of the largest" : ""}`;
    const what = relation === "similar" ? "pairs" : `attentions of at least ${least}`;
    const many = this.drawn.length > 1 ? `, as many of each of ${this.drawn.length} heads as there is room for` : "";
    const waiting = this.drawn.some(({ attention }) => !attention);
    this.capped.textContent =
      (waiting ? "Fetching maps… " : "") +
      (count > ARCS_MAX ? `Drawn: the ${ARCS_MAX} strongest of ${count.toLocaleString("en")} ${what}${many}.` : "") +
      (bare.length ? ` No lines of ${bare.map(({ name }) => name).join(", ")}: no attention here reaches ${least}.` : "");
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
    const parts = RELATIONS.map(
      (r) => `${ABOUT[r].title.toLowerCase()} ${format(relationOf(head, chosen, r)[t])}`,
    );
    this.app.readout(
      `${head.axis.labels[t]} ${head.axis.positions[t]}   sentence ${head.axis.sentences[t]}   ` +
        (chosen.length ? `chosen: ${parts.join("   ")}` : ""),
      aloud,
    );
  }

  exportable(): Exportable | null {
    const { head } = this;
    const { state } = this.app;
    const { entry, selection } = this.app.head(state);
    if (!head || !entry.answer) return null;
    const { axis } = head;
    const chosen = this.chosen();
    const columns = this.columns(head, chosen);
    const rows = (): (string | number)[][] => [
      [
        "position",
        "token",
        "sentence",
        "chosen",
        ...columns.map(({ name }) => name),
      ],
      ...axis.labels.map((label, t) => [
        axis.positions[t]!,
        label,
        axis.sentences[t]!,
        String(chosen.includes(t)),
        ...columns.map(({ values }) => values[t]!),
      ]),
    ];
    const outputs = ["attentions", "similarities", "pairs", ...(this.app.state.bands ? (["segments"] as const) : [])] as const;
    const request = measuredRequest(this.app.savedHeads([selection, ...this.drawn], [...outputs]), state);
    const made = this.app.exported(entry.answer, `text-${nameOf(selection)}`, request);
    const around = {
      strokes: this.strokes(),
      bands: this.shownBands(),
      bars: this.bar ? [this.bar] : [],
      keys: this.keys(),
    };
    return withHeads({ ...made, picture: textPicture(this.paper, this.flow!.flow.tokens, around, made.title), rows }, this.ties.shown);
  }

  // A token's figures of the head, and of the heads whose lines are drawn beside it.
  private columns(head: Head, chosen: readonly number[]): { name: string; values: Float64Array }[] {
    const { relation } = this.app.state;
    const named = (r: Relation): string => ABOUT[r].title.toLowerCase().replace(" ", "_");
    const others = this.drawn.flatMap(({ layer, head: k, attention }) =>
      attention && attention !== head.attention
        ? [{ name: `${named(relation)}_l${layer}_h${k}`, values: relationOf({ ...head, attention }, chosen, relation) }]
        : [],
    );
    return [...RELATIONS.map((r) => ({ name: named(r), values: relationOf(head, chosen, r) })), ...others];
  }

  // Whose lines have which colour, where there are several.
  private keys(): { name: string; colour: string }[] {
    const style = getComputedStyle(this.element);
    if (this.drawn.length < 2) return [];
    return this.drawn.map(({ name, lane }) => ({ name, colour: style.getPropertyValue(laneColour(lane)).trim() }));
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
