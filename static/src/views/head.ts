// One head in full: attention and similarity side by side under one cross-hair.
import { nameOf, type App } from "../app";
import { averagedRegions, columnProfile, highTokens, labelsOf, runsOf, type Head } from "../analysis";
import { colourBar } from "../colourbar";
import { h, perFrame, replace, segmented, select, toggle } from "../dom";
import type { Exportable } from "../export";
import { HeadPicker } from "../head-picker";
import { Heatmap, type Cell, type HeatmapContent } from "../heatmap";
import { entryOf } from "../lens";
import { attentionName, attentionOf, formulaOf, measureControls, measuredRequest } from "../measures";
import { FIGURES, patternOf, valueOf, type Figure, type Known } from "../metrics";
import { PATTERNS } from "../patterns";
import { countAbove, figuresOf, pairsOf } from "../pair-order";
import { withHeads } from "../picture-heads";
import { describeCell } from "../readout";
import { savedRequest } from "../requests";
import { format, percent } from "../scale";
import { shadeOf, type Shade } from "../shade";
import { SUM, type Diagonal, type Overlay, type Scale, type State } from "../state";
import { statusOf } from "../status";
import { Ties } from "../ties";
import { pictureOf, type Plate } from "../surface";
import { Viewport } from "../viewport";

type Quantity = "attention" | "similarity";
const TITLES: Record<Quantity, string> = { attention: "Attention", similarity: "Context similarity" };

export class HeadView {
  readonly element: HTMLElement;
  readonly viewport = new Viewport();
  readonly maps: Record<Quantity, Heatmap>;
  private readonly bars: Record<Quantity, HTMLElement> = { attention: h("div"), similarity: h("div") };
  private readonly picker: HeadPicker;
  private readonly controls;
  private readonly measures;
  private readonly names: Record<Quantity, { title: HTMLElement; formula: HTMLElement }> = { attention: naming(), similarity: naming() };
  private readonly status = h("div");
  private readonly plates: HTMLElement;
  private readonly facts = h("dl", { class: "facts" });
  private readonly table = h("details", { class: "alternative" }, h("summary", {}, "Held row as a table"));
  private readonly ties: Ties;
  private readonly zoomOut: HTMLButtonElement;
  private readonly alike = h("button", { type: "button", onclick: () => this.seekAlike() }, "Heads like this one");
  private hovered: Cell | null = null;
  private head: Head | null = null;
  private shown = "";
  private shownHead: Head | null = null;

  constructor(private readonly app: App) {
    this.ties = new Ties(app);
    this.picker = new HeadPicker(app, "Layer", (layer, head) => app.set({ layer, head }, true), () => ["attention", "similarity"]);
    this.measures = measureControls(app);
    this.controls = {
      scale: segmented<Scale>(
        "Scale",
        [
          { value: "linear", label: "Linear" },
          { value: "log", label: "Log", title: "Four decades below the maximum" },
          { value: "row", label: "Per row", title: "Each query's row to its own maximum" },
        ],
        (scale) => app.set({ scale }),
      ),
      overlay: select(
        "Overlay",
        [
          ["none", "None"],
          ["mask", "Mask (Fig. 5)"],
          ["regions", "Averaged regions (Fig. 5)"],
          ["pairs", "High pairs"],
        ],
        (overlay) => app.set({ overlay: overlay as Overlay }),
      ),
      diag: select(
        "Diagonal",
        [
          ["paper", "As in the paper"],
          ["on", "On"],
          ["off", "Off"],
        ],
        (diag) => app.set({ diag: diag as Diagonal }),
      ),
      lines: toggle("Sentences", "Lines between sentences", (lines) => app.set({ lines })),
    };
    const zoom = (label: string, title: string, act: () => void): HTMLButtonElement =>
      h("button", { type: "button", class: "icon", "aria-label": title, title, onclick: act }, label);
    this.zoomOut = zoom("−", "Zoom out", () => this.viewport.zoom(1 / 1.6));
    const zooms = h(
      "div",
      { class: "zoom", role: "group", "aria-label": "Zoom" },
      this.zoomOut,
      zoom("+", "Zoom in", () => this.viewport.zoom(1.6)),
      zoom("⤢", "Whole map", () => this.viewport.reset()),
    );
    this.maps = { attention: this.heatmap("attention"), similarity: this.heatmap("similarity") };
    const plate = (quantity: Quantity): HTMLElement =>
      h(
        "figure",
        { class: "plate" },
        h(
          "figcaption",
          {},
          h("div", {}, this.names[quantity].title, this.names[quantity].formula),
          this.bars[quantity],
        ),
        this.maps[quantity].element,
      );
    this.plates = h(
      "div",
      { class: "plates" },
      plate("attention"),
      plate("similarity"),
    );
    this.element = h(
      "section",
      { class: "view head", "aria-label": "Head" },
      h("div", { class: "toolbar" }, this.picker.element, this.alike),
      h(
        "div",
        { class: "toolbar" },
        this.controls.scale.element,
        this.controls.overlay.element,
        this.controls.diag.element,
        this.controls.lines.element,
        this.measures.elements,
        zooms,
      ),
      this.status,
      this.plates,
      this.facts,
      this.ties.element,
      this.table,
    );
    this.viewport.watch(() => {
      this.zoomOut.disabled = !this.viewport.zoomed;
      if (this.head && this.element.isConnected) app.settle({ zoom: this.viewport.state });
    });
    this.table.addEventListener("toggle", () => app.draw());
  }

  // Where the keyboard goes on from when a head is opened.
  get entrance(): HTMLElement | null {
    return this.plates.hidden ? null : this.maps.attention.overlay;
  }

  private heatmap(quantity: Quantity): Heatmap {
    return new Heatmap(`${TITLES[quantity]} map`, this.viewport, {
      hover: (cell) => this.hover(cell),
      pick: (cell) => {
        const { axis } = this.head!;
        this.app.set({ pin: cell.map((t) => axis.groups[t]![0]!) });
        this.app.readout(describeCell(this.head!, cell), true);
      },
    });
  }

  private hover(cell: Cell | null): void {
    this.hovered = cell;
    const held = this.held();
    for (const map of Object.values(this.maps)) map.point(cell, held);
    const at = cell ?? held;
    this.app.readout(this.head && at ? describeCell(this.head, at) : "");
  }

  private seekAlike(): void {
    const { layer, head } = this.app.selection(this.app.overview().answer);
    this.app.set({ view: "overview", seek: `like ${layer}·${head}`, only: "all" }, true);
  }

  private held(): Cell | null {
    const { pin } = this.app.state;
    if (!this.head || pin.length !== 2) return null;
    const [row, column] = pin.map((t) => entryOf(this.head!.axis, t));
    return row! >= 0 && column! >= 0 ? [row!, column!] : null;
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    const { head, entry, selection } = app.head(state);
    this.controls.scale.set(state.scale);
    this.controls.overlay.set(state.overlay);
    this.controls.diag.set(state.diag);
    this.controls.lines.set(state.lines);
    this.measures.update();
    this.picker.update(app.overview().answer, selection);
    this.alike.hidden = !head || selection.head === SUM;
    replace(this.status, head && entry.status === "loading" ? null : statusOf(app, entry));
    this.head = head;
    this.plates.hidden = this.facts.hidden = this.table.hidden = !head;
    this.ties.element.hidden = !head;
    if (!head) return;
    this.ties.update(head.axis, this.held() as [number, number] | null);
    this.viewport.follow(head.axis.n, state.zoom);
    this.draw(head);
    this.hover(this.hovered);
    this.describeLater();
    if (this.table.open) this.tabulate(head);
  }

  // Figures come a frame after the picture: sorting the pairs of a long text takes longer than drawing it.
  private readonly describeLater = perFrame(() => {
    const { head } = this;
    if (!head) return;
    const { layer, head: k } = this.app.selection(this.app.overview().answer);
    this.describe(head, layer, k);
  });

  private draw(head: Head): void {
    const { scale, overlay, diag, map, lines, tau, atau, positions } = this.app.state;
    const key = [
      scale,
      overlay,
      diag,
      map,
      lines,
      positions,
      overlay === "pairs" ? tau : 0,
      overlay === "mask" || overlay === "regions" ? atau : 0,
      this.app.theme,
    ].join(" ");
    if (this.shownHead === head && this.shown === key) return;
    if (this.shownHead !== head) performance.mark("head-drawn");
    this.shownHead = head;
    this.shown = key;
    for (const quantity of ["attention", "similarity"] as const) {
      const { axis } = head;
      const shade = this.shade(head, quantity);
      this.maps[quantity].show({
        ...shade,
        n: axis.n,
        labels: labelsOf(axis, positions),
        faint: axis.special,
        ...this.marks(head, quantity),
      });
      replace(this.bars[quantity], colourBar({ ...shade, label: this.titleOf(quantity) }));
      this.names[quantity].title.textContent = this.titleOf(quantity);
      this.names[quantity].formula.textContent =
        formulaOf[quantity](this.app.state) + (quantity === "similarity" && diag === "on" && !head.own ? "; its diagonal is not known" : "");
    }
  }

  private titleOf(quantity: Quantity): string {
    return quantity === "attention" ? attentionName(this.app.state) : TITLES.similarity;
  }

  private shade(head: Head, quantity: Quantity): Shade {
    const { state, theme } = this.app;
    return shadeOf(valuesOf(head, quantity, state), head.axis.n, quantity, { ...state, theme });
  }

  private marks(head: Head, quantity: Quantity): Partial<HeatmapContent> {
    const { overlay, lines, atau, tau } = this.app.state;
    const { axis } = head;
    const marks: Partial<HeatmapContent> = {};
    if (lines) marks.boundaries = axis.sentences.flatMap((s, t) => (t && s !== axis.sentences[t - 1] ? [t] : []));
    if (overlay === "mask" || (overlay === "regions" && quantity === "attention"))
      marks.mask = new Set(highTokens(columnProfile(head.attention, axis.n), atau));
    if (overlay === "pairs" && quantity === "similarity") {
      const pairs = pairsOf(head);
      const cells: [number, number][] = [];
      for (let k = 0; k < countAbove(pairs, tau); k++)
        cells.push([pairs.i[k]!, pairs.j[k]!], [pairs.j[k]!, pairs.i[k]!]);
      marks.cells = cells;
    }
    return marks;
  }

  private describe(head: Head, layer: number, h0: number): void {
    const answer = this.app.overview().answer;
    const summary = h0 !== SUM && answer ? this.app.figures(answer)[layer]?.[h0] : undefined;
    const term = (name: string, value: string, title = ""): HTMLElement =>
      h("div", { title }, h("dt", {}, name), h("dd", {}, value));
    const profile = columnProfile(head.attention, head.axis.n);
    const gathers = highTokens(profile, this.app.state.atau).sort((a, b) => profile[b]! - profile[a]!);
    const times = new Map<string, number>();
    for (const t of gathers) times.set(head.axis.labels[t]!, (times.get(head.axis.labels[t]!) ?? 0) + 1);
    const named = [...times]
      .slice(0, 4)
      .map(([token, n]) => (n > 1 ? `${token} ×${n}` : token))
      .join(" · ");
    const figures: Figure[] = [
      "repeated_share",
      "same_sentence_share",
      "mean_distance",
      "focal_share",
      "separator_attention",
      "attention_entropy",
      "snr_dprime",
    ];
    const { space, tau } = this.app.state;
    const pairs = head.exact ? countAbove(pairsOf(head), tau) : (summary?.high_pairs ?? NaN);
    const known = summary && space === "residual" ? { ...summary, ...inResidualSpace(head, tau) } : summary;
    this.facts.dataset.exact = String(head.exact);
    replace(
      this.facts,
      summary?.profile && patternTerm(summary, term),
      term("Maximum m", format(head.maximum), "Largest similarity of two different tokens"),
      term("High pairs", pairs.toLocaleString("en"), `Pairs with N ≥ ${this.app.state.tau}`),
      known && figures.map((f) => term(FIGURES[f].name, FIGURES[f].write(valueOf(known, f)), FIGURES[f].title)),
      term(
        "Attention gathers on",
        named ? `${named}${times.size > 4 ? " …" : ""}` : "–",
        `Tokens whose column sum is at least ${this.app.state.atau} of the largest`,
      ),
    );
  }

  exportable(): Exportable | null {
    const { state } = this.app;
    const { head, entry, selection } = this.app.head(state);
    if (!head || !entry.answer) return null;
    const { x, y, span } = this.viewport;
    const { axis } = head;
    const name = nameOf(selection);
    const plates = (["attention", "similarity"] as const).map(
      (quantity): Plate => ({
        ...this.shade(head, quantity),
        marks: this.marks(head, quantity),
        held: this.held(),
        title: `${this.titleOf(quantity)}: ${formulaOf[quantity](state)}`,
        n: axis.n,
        labels: labelsOf(axis, this.app.state.positions),
        window: { x, y, span },
      }),
    );
    const rows = (): (string | number)[][] => [
      ["i", "j", "token_i", "token_j", "attention", ...(head.weighted ? ["weighted_norms"] : []), "similarity", "normalized"],
      ...cellsIn(axis.n, { x, y, span }).map(([i, j]) => [
        axis.positions[i]!,
        axis.positions[j]!,
        axis.labels[i]!,
        axis.labels[j]!,
        head.attention[i * axis.n + j]!,
        ...(head.weighted ? [head.weighted[i * axis.n + j]!] : []),
        head.similarity[i * axis.n + j]!,
        head.normalized[i * axis.n + j]!,
      ]),
    ];
    const outputs = ["attentions", "similarities", "head_outputs", "summary"] as const;
    const request = measuredRequest(savedRequest(state, [selection.layer], selection.head, [...outputs]), state);
    const made = this.app.exported(entry.answer, `head-${name}`, request);
    return withHeads({ ...made, picture: pictureOf(plates, made.title), rows }, this.ties.shown);
  }

  private tabulate(head: Head): void {
    const row = (this.held() ?? [0, 0])[0];
    const { axis } = head;
    const at = (map: ArrayLike<number>, j: number): string => format(map[row * axis.n + j]);
    replace(
      this.table,
      h("summary", {}, "Held row as a table"),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": `Values of the row of ${axis.labels[row]}` },
        h(
          "table",
          {},
          h("caption", {}, `Query: ${axis.labels[row]} (${row})`),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Position", "Token", attentionName(this.app.state), "Similarity S", "Normalised N"].map((name) =>
                h("th", { scope: "col" }, name),
              ),
            ),
          ),
          h(
            "tbody",
            {},
            axis.labels.map((label, j) =>
              h(
                "tr",
                {},
                h("td", {}, j),
                h("th", { scope: "row" }, label),
                h("td", {}, at(attentionOf(head, this.app.state), j)),
                h("td", {}, at(head.similarity, j)),
                h("td", {}, at(head.normalized, j)),
              ),
            ),
          ),
        ),
      ),
    );
  }
}

// The figures of the high pairs that are seen; the overview's are of the head's own space.
function inResidualSpace(head: Head, tau: number): Pick<Known, "repeated_share" | "same_sentence_share" | "mean_distance" | "focal_share" | "snr_dprime"> {
  const pairs = pairsOf(head);
  const high = Array.from({ length: countAbove(pairs, tau) }, (_, k) => k);
  const { repeated, sameSentence, meanDistance, focalShare } = figuresOf(pairs, high, head.axis);
  return { repeated_share: repeated, same_sentence_share: sameSentence, mean_distance: meanDistance, focal_share: focalShare, snr_dprime: null };
}

const naming = (): { title: HTMLElement; formula: HTMLElement } => ({ title: h("h2"), formula: h("p", { class: "muted" }) });

// The pattern in one word, and where the attention goes, strongest first.
function patternTerm(known: Known, term: (name: string, value: string, title: string) => HTMLElement): HTMLElement {
  const named = PATTERNS.filter((p) => p !== "broad")
    .map((pattern) => ({ pattern, value: valueOf(known, pattern) ?? 0 }))
    .sort((a, b) => b.value - a.value);
  const written = named.map(({ pattern, value }) => `${FIGURES[pattern].short} ${percent(value)}`);
  return term("Pattern", `${patternOf(known) || "mixed"} (${written.slice(0, 2).join(", ")})`, `Shares of attention: ${written.join(", ")}`);
}

// Rows and columns in sight, row by row.
function cellsIn(n: number, { x, y, span }: Plate["window"]): [number, number][] {
  const inSight = (from: number): number[] =>
    Array.from({ length: n }, (_, t) => t).filter((t) => t + 1 > from && t < from + span);
  const columns = inSight(x);
  return inSight(y).flatMap((i) => columns.map((j): [number, number] => [i, j]));
}

// What a map shows of a head: overlays that replace values and the diagonal's choice applied.
export function valuesOf(
  head: Head,
  quantity: Quantity,
  state: Pick<State, "overlay" | "diag" | "atau" | "space" | "weigh">,
): Float32Array {
  const { n } = head.axis;
  if (quantity === "attention") {
    const shown = attentionOf(head, state);
    if (state.diag !== "off") return shown;
    const values = shown.slice();
    for (let i = 0; i < n; i++) values[i * n + i] = 0;
    return values;
  }
  const { similarity } = head;
  if (state.overlay === "regions")
    return averagedRegions(similarity, n, runsOf(highTokens(columnProfile(head.attention, n), state.atau), n));
  if (state.diag !== "on" || !head.own) return similarity;
  const values = similarity.slice();
  for (let i = 0; i < n; i++) values[i * n + i] = head.own[i]!;
  return values;
}
