// The heads as points of the plane: those that do alike lie together. Coloured by pattern or by layer; a press opens
// one. One stop for the Tab key, arrows go to the next head in their direction.
import type { App } from "./app";
import type { Answer } from "./answer";
import { cssOf, hueAt, inkOn, lutOf, type Theme } from "./colour";
import { h, replace, segmented } from "./dom";
import type { Exportable } from "./export";
import { nearestOf, Planner, type Placed } from "./head-distances";
import { FIGURES, patternOf, type Known } from "./metrics";
import { PATTERNS, type Pattern } from "./patterns";
import { distancesRequest } from "./requests";
import { format, maximumOf, minimumOf } from "./scale";
import type { Distance, Paint } from "./state";
import { statusOf } from "./status";
import type { Ink, Picture, Surface } from "./surface";

const NEAREST = 8;
const PAD = 5; // per cent of the frame left free at each side
const WIDEST = 1.6; // frame, width to height

interface Point {
  l: number;
  h: number;
  left: number; // per cent
  top: number;
  button: HTMLButtonElement;
}

export class HeadPlane {
  readonly element: HTMLElement;
  private readonly distance;
  private readonly paint;
  private readonly square = h("div", { class: "plane", role: "group", "aria-label": "Heads as points" });
  private readonly status = h("div");
  private readonly about = h("p", { class: "muted caption" });
  private readonly legend = h("ul", { class: "plane-legend" });
  private readonly nearest = h("section", { class: "card nearest" });
  private readonly planner: Planner;
  private points: Point[] = [];
  private laid: Placed | null = null;
  private over = -1; // index into points

  constructor(
    private readonly app: App,
    private readonly tell: (l: number, head: number, aloud: boolean) => void,
  ) {
    this.planner = new Planner(app.draw);
    this.distance = segmented<Distance>(
      "Distance of",
      [
        { value: "cka", label: "Outputs (CKA)", title: "1 − unbiased linear CKA of the heads’ outputs" },
        { value: "js", label: "Attention (JS)", title: "Jensen-Shannon divergence of the maps, mean over rows, in nats" },
      ],
      (distance) => app.set({ distance }),
    );
    this.paint = segmented<Paint>(
      "Coloured by",
      [
        { value: "pattern", label: "Pattern" },
        { value: "layer", label: "Layer" },
      ],
      (paint) => app.set({ paint }),
    );
    this.element = h(
      "div",
      { class: "head-plane" },
      h("div", { class: "toolbar" }, this.distance.element, this.paint.element),
      this.status,
      h("div", { class: "plane-body" }, h("div", {}, this.square, this.about), h("div", { class: "plane-side" }, this.legend, this.nearest)),
    );
    this.square.addEventListener("keydown", (e) => this.key(e));
    this.square.addEventListener("pointerleave", () => this.point(-1));
    new ResizeObserver(() => this.thin()).observe(this.square);
  }

  // Whether colours need the heads' patterns.
  get byPattern(): boolean {
    return this.app.state.paint === "pattern";
  }

  // chosen: whether a head is among those looked for.
  update(overview: Answer, known: Known[][], chosen: (l: number, head: number) => boolean): void {
    const { app } = this;
    this.distance.set(app.state.distance);
    this.paint.set(app.state.paint);
    const entry = app.cache.want(distancesRequest(app.state));
    const placed = entry.answer && this.planner.of(entry.answer);
    replace(this.status, statusOf(app, entry) ?? (placed ? null : h("p", { class: "muted", role: "status" }, "Laying the heads out…")));
    this.square.setAttribute("aria-busy", String(!placed));
    if (!placed) return;
    if (this.laid !== placed) this.lay(placed, overview);
    this.colour(known, overview.layers.length, chosen);
    const left = overview.layers.length * overview.heads.length - placed.heads.length;
    this.about.textContent =
      `Classical scaling of the distances into two dimensions, stress ${format(placed.plane.stress)} (0: the plane holds every distance). Where names would overlap, a point shows its own under the pointer.` +
      (left ? ` ${left} heads put out the same for every token and have no place.` : "");
    this.list(entry.answer!, overview);
  }

  private lay(placed: Placed, { heads }: Answer): void {
    this.laid = placed;
    const { x, y } = placed.plane;
    const [across, down] = [spanOf(x), spanOf(y)];
    // One scale both ways: the frame takes the shape of the points, within reason.
    const shape = Math.min(WIDEST, Math.max(1, across.size / down.size));
    const unit = Math.max(across.size / shape, down.size);
    this.square.style.aspectRatio = String(shape);
    const place = (v: number, { middle }: { middle: number }, room: number): number => 50 + ((100 - 2 * PAD) * (v - middle)) / (unit * room);
    this.points = placed.heads.map((at, n) => {
      const [l, k] = [Math.floor(at / heads.length), at % heads.length];
      const button = h(
        "button",
        {
          type: "button",
          tabindex: n ? -1 : 0,
          onclick: () => this.app.set({ view: "head", layer: l, head: k, pin: [] }, true),
          onpointerenter: () => this.point(n),
          onfocus: () => this.point(n, true),
        },
        h("span", {}, `${l}·${k}`),
      );
      const point = { l, h: k, left: place(x[n]!, across, shape), top: 100 - place(y[n]!, down, 1), button };
      button.style.left = `${point.left}%`;
      button.style.top = `${point.top}%`;
      return point;
    });
    this.over = -1;
    replace(this.square, this.points.map(({ button }) => button));
  }

  // Labels that would lie on another point or label are left out; a point shows its own under the pointer.
  private thin(): void {
    const { clientWidth, clientHeight } = this.square;
    if (!clientWidth) return;
    const places = this.points.map(({ left, top }) => ({ x: (left * clientWidth) / 100, y: (top * clientHeight) / 100 }));
    const order = [...this.points.keys()].sort((a, b) => this.weight(b) - this.weight(a));
    const labelled = labelledOf(places, order);
    this.points.forEach(({ button }, n) => button.classList.toggle("dot", !labelled.has(n)));
  }

  // Who is labelled first: the chosen head, then those that are looked for.
  private weight(n: number): number {
    const { classList } = this.points[n]!.button;
    return classList.contains("chosen") ? 2 : classList.contains("faint") ? 0 : 1;
  }

  private groundOf(known: Known, l: number, layers: number): { ground: string; ink: string } {
    const { state, theme } = this.app;
    if (state.paint === "layer") {
      const lut = lutOf(state.map, "figure", theme);
      const place = layers > 1 ? l / (layers - 1) : 0;
      return { ground: cssOf(lut, place), ink: inkOn(lut, place) };
    }
    return { ground: colourOf(patternOf(known), theme), ink: theme === "light" ? "#000000" : "#ffffff" };
  }

  private colour(known: Known[][], layers: number, chosen: (l: number, head: number) => boolean): void {
    const selection = this.app.selection(this.app.overview().answer);
    const counts = new Map<Pattern | "", number>();
    for (const { l, h: k, button } of this.points) {
      const head = known[l]![k]!;
      const pattern = patternOf(head);
      counts.set(pattern, (counts.get(pattern) ?? 0) + 1);
      const { ground, ink } = this.groundOf(head, l, layers);
      button.style.background = ground;
      button.style.color = ink;
      button.classList.toggle("faint", !chosen(l, k));
      button.classList.toggle("chosen", l === selection.layer && k === selection.head);
      button.setAttribute("aria-label", `${l}·${k}: layer ${l}, head ${k}${pattern ? `, ${pattern}` : ""}`);
    }
    this.thin();
    const key = (ground: string, name: string, title = ""): HTMLElement => {
      const swatch = h("i", {});
      swatch.style.background = ground;
      return h("li", { title }, swatch, name);
    };
    replace(
      this.legend,
      this.byPattern
        ? [...PATTERNS, "" as const].filter((p) => counts.get(p)).map((p) => key(colourOf(p, this.app.theme), `${p || "mixed"} ${counts.get(p)}`, p && FIGURES[p].title))
        : Array.from({ length: layers }, (_, l) => key(this.groundOf(known[0]![0]!, l, layers).ground, `layer ${l}`)),
    );
  }

  // The heads nearest to the one under the pointer, else to the one chosen.
  private list(answer: Answer, { heads }: Answer): void {
    const selection = this.app.selection(answer);
    const { l, h: k } = this.points[this.over] ?? { l: selection.layer, h: Math.max(0, selection.head) };
    const nearest = nearestOf(answer, l * heads.length + k).slice(0, NEAREST);
    replace(
      this.nearest,
      h("h2", {}, `Nearest to layer ${l} head ${k}`),
      h(
        "ol",
        { class: "ranked" },
        nearest.map(({ place, distance }) => {
          const [layer, head] = [Math.floor(place / heads.length), place % heads.length];
          return h(
            "li",
            {},
            h("button", { type: "button", class: "link", onclick: () => this.app.set({ view: "head", layer, head, pin: [] }, true) }, `Layer ${layer} head ${head}`),
            h("b", {}, format(distance)),
          );
        }),
      ),
    );
  }

  private point(n: number, aloud = false): void {
    if (this.over === n) return;
    this.over = n;
    const { answer } = this.app.cache.want(distancesRequest(this.app.state));
    const overview = this.app.overview().answer;
    if (answer && overview) this.list(answer, overview);
    const at = this.points[n];
    if (at) this.tell(at.l, at.h, aloud);
    else this.app.readout("");
  }

  private key(e: KeyboardEvent): void {
    const here = this.points.find(({ button }) => button === document.activeElement);
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (!here || !way) return;
    e.preventDefault();
    const next = nextIn(this.points, here, way as [number, number]);
    if (!next) return;
    here.button.tabIndex = -1;
    next.button.tabIndex = 0;
    next.button.focus();
  }

  exportable(overview: Answer, known: Known[][]): Exportable | null {
    const request = distancesRequest(this.app.state);
    const { answer } = this.app.cache.want(request);
    if (!answer || !this.laid) return null;
    const { plane, heads } = this.laid;
    const made = this.app.exported(overview, "map-of-heads", request);
    const rows = (): (string | number)[][] => [
      ["layer", "head", "x", "y", "pattern"],
      ...heads.map((_, n) => {
        const { l, h: k } = this.points[n]!;
        return [l, k, plane.x[n]!, plane.y[n]!, patternOf(known[l]![k]!)];
      }),
    ];
    return { ...made, picture: this.picture(overview, known, made.title), rows };
  }

  private picture({ layers }: Answer, known: Known[][], footer: string): Picture {
    const [left, top, side] = [20, 50, 760];
    const high = side / parseFloat(this.square.style.aspectRatio);
    const legend = [...this.legend.children].map((item) => ({ name: item.textContent!, ground: (item.firstElementChild as HTMLElement).style.background }));
    const draw = (surface: Surface, ink: Ink): void => {
      surface.rect(0, 0, side + 200, high + 120, ink.page, null);
      surface.text(`Heads by distance of ${this.app.state.distance === "cka" ? "outputs (CKA)" : "attention (JS)"}`, left, 22, { size: 13, colour: ink.ink, bold: true });
      surface.text(this.about.textContent!, left, 38, { size: 9, colour: ink.muted });
      surface.rect(left, top, side, high, null, ink.line);
      for (const point of this.points) {
        const { ground, ink: colour } = this.groundOf(known[point.l]![point.h]!, point.l, layers.length);
        const [x, y] = [left + (side * point.left) / 100, top + (high * point.top) / 100];
        const dot = point.button.classList.contains("dot");
        if (dot) surface.rect(x - 4, y - 4, 8, 8, ground, ink.line);
        else surface.rect(x - 14, y - 7, 28, 14, ground, ink.line);
        if (!dot) surface.text(`${point.l}·${point.h}`, x, y, { size: 9, colour, anchor: "middle" });
      }
      legend.forEach(({ name, ground }, n) => {
        surface.rect(left + side + 16, top + n * 18, 12, 12, ground, ink.line);
        surface.text(name, left + side + 34, top + n * 18 + 6, { size: 10, colour: ink.ink });
      });
      surface.text(footer, left, top + high + 30, { size: 9, colour: ink.muted });
    };
    return { width: side + 200, height: high + 120, draw };
  }
}

const spanOf = (v: Float64Array): { middle: number; size: number } => {
  const [low, high] = [minimumOf(v), maximumOf(v)];
  return { middle: (low + high) / 2, size: Math.max(1e-9, high - low) };
};

// Hues as far apart as eight can be; greys where the attention goes nowhere in particular.
const HUES: Partial<Record<Pattern, number>> = { previous: 250, next: 140, self: 195, first: 90, separator: 55, punctuation: 115, repeated: 20, sentence: 305 };
const GREYS = { light: { broad: "#cdd1d5", mixed: "#f4f4f2" }, dark: { broad: "#4a5057", mixed: "#22262a" } };
function colourOf(pattern: Pattern | "", theme: Theme): string {
  const hue = pattern && HUES[pattern];
  return hue ? hueAt(hue, theme) : GREYS[theme][pattern ? "broad" : "mixed"];
}

const LABEL = { wide: 34, high: 19 }, // CSS px of a point with its label, and of one without
  DOT = 11;

// Those that have room for their label, the first in order first.
export function labelledOf(places: readonly { x: number; y: number }[], order: readonly number[]): Set<number> {
  const labelled = new Set<number>();
  for (const n of order) {
    const { x, y } = places[n]!;
    const free = places.every((other, k) => {
      const [wide, high] = labelled.has(k) ? [LABEL.wide, LABEL.high] : [(LABEL.wide + DOT) / 2, (LABEL.high + DOT) / 2];
      return k === n || Math.abs(other.x - x) >= wide || Math.abs(other.y - y) >= high;
    });
    if (free || !labelled.size) labelled.add(n); // the first always: the head that is chosen
  }
  return labelled;
}

// The nearest point within 45 degrees of the way; sideways counts double.
export function nextIn<P extends { left: number; top: number }>(points: readonly P[], from: P, [dx, dy]: readonly [number, number]): P | null {
  let best: P | null = null,
    least = Infinity;
  for (const point of points) {
    const [x, y] = [point.left - from.left, point.top - from.top];
    const along = x * dx + y * dy,
      across = Math.abs(x * dy) + Math.abs(y * dx);
    if (point === from || along <= 0 || across > along) continue;
    if (along + 2 * across < least) ((best = point), (least = along + 2 * across));
  }
  return best;
}
