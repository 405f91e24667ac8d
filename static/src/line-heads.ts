// Which heads' attention is drawn as lines over the text: the one on screen, and those kept beside it.
import type { Axis } from "./analysis";
import type { Answer } from "./answer";
import type { App, Selection } from "./app";
import { h, replace } from "./dom";
import { project } from "./lens";
import { BESIDE_MOST, SUM } from "./state";

export interface LineHead extends Selection {
  lane: number; // its colour's number
  name: string;
  attention: Float32Array | null; // [n][n]; null: its maps are on their way
}

const nameOf = ({ layer, head }: Selection): string => `${layer}·${head === SUM ? "sum" : head}`;
export const laneColour = (lane: number): string => `--line-${lane}`;

export class LineHeads {
  readonly element = h("div", { class: "line-heads", role: "group", "aria-label": "Heads whose attention is drawn" });
  private readonly known = new WeakMap<Uint8Array, { axis: Axis; map: Float32Array }>();

  constructor(private readonly app: App) {}

  // Kept ones first, so that each keeps its colour when another is chosen.
  of(axis: Axis, shown: Selection, attention: Float32Array): LineHead[] {
    const overview = this.app.overview().answer;
    const kept = overview ? this.kept(overview) : [];
    const here = kept.some((one) => isSame(one, shown));
    const all = here ? kept : [...kept, shown];
    return all.map((one, lane) => ({
      ...one,
      lane,
      name: nameOf(one),
      attention: isSame(one, shown) ? attention : this.map(overview!, axis, one),
    }));
  }

  private kept({ layers, heads }: Answer): Selection[] {
    return this.app.state.beside
      .map(([layer, head]) => ({ layer, head }))
      .filter(({ layer, head }) => layer < layers.length && head < heads.length);
  }

  private map(overview: Answer, axis: Axis, { layer, head }: Selection): Float32Array | null {
    const bytes = this.app.attention(overview, layer)?.[head];
    if (!bytes) return null;
    let known = this.known.get(bytes);
    if (known?.axis !== axis) {
      known = { axis, map: project(bytes, overview.encoding.ids.length, axis, "attention", 1 / 255) };
      this.known.set(bytes, known);
    }
    return known.map;
  }

  private keep(beside: readonly Selection[]): void {
    this.app.set({ beside: beside.map(({ layer, head }) => [layer, head] as const) });
  }

  // The heads by name in their colours, each of the kept ones with a way to let go of it.
  update(heads: readonly LineHead[], shown: Selection): void {
    const overview = this.app.overview().answer;
    const kept = overview ? this.kept(overview) : [];
    const open = (one: LineHead): HTMLElement =>
      h(
        "button",
        { type: "button", class: "link", title: "Shows this head", onclick: () => this.app.set({ layer: one.layer, head: one.head }, true) },
        one.name,
      );
    const drop = (one: LineHead): HTMLElement =>
      h(
        "button",
        {
          type: "button",
          class: "link drop-head",
          "aria-label": `Lines of ${one.name} no more`,
          onclick: () => this.keep(kept.filter((other) => !isSame(other, one))),
        },
        "×",
      );
    const free = shown.head !== SUM && !kept.some((one) => isSame(one, shown)) && kept.length < BESIDE_MOST;
    replace(
      this.element,
      h("span", { class: "muted" }, heads.length > 1 ? "Lines of" : "Lines of head"),
      heads.map((one) => {
        const swatch = h("i", { "aria-hidden": "true" });
        swatch.style.background = `var(${laneColour(one.lane)})`;
        return h("span", { class: "line-head" }, swatch, open(one), kept.some((other) => isSame(other, one)) && drop(one));
      }),
      free &&
        h(
          "button",
          {
            type: "button",
            class: "keep-head",
            title: "Its lines stay while another head is chosen above",
            onclick: () => this.keep([...kept, shown]),
          },
          `Keep ${nameOf(shown)} beside the next`,
        ),
    );
  }
}

const isSame = (a: Selection, b: Selection): boolean => a.layer === b.layer && a.head === b.head;
