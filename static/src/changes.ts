// What changed: every head ranked by how far its map moved between the two sides of a comparison.
import type { Alignment } from "./align";
import type { Axis } from "./analysis";
import { partAt, type Answer } from "./answer";
import type { App } from "./app";
import { attentionChange, similarityChange } from "./change";
import { lutOf } from "./colour";
import { disclosure, h } from "./dom";
import { HeadMap, type HeadMapContent } from "./head-map";
import type { Asked } from "./requests";
import { format, ticksOf, wordsOf } from "./scale";
import { fromHalves } from "./similarity";

export interface ChangedSide {
  overview: Answer;
  asked: Asked;
  axis: Axis;
}

export class Changes {
  readonly element: HTMLDetailsElement;
  private readonly map: HeadMap;
  private readonly waiting = h("p", { class: "muted", role: "status" }, "Comparing the heads…");
  private key: unknown[] = [];
  private values: (number | null)[][] = [];

  constructor(private readonly app: App) {
    this.map = new HeadMap((layer, head) =>
      app.set(app.state.against === "off" ? { layer, head } : { layer, head, layer2: layer, head2: head }, true),
    );
    this.element = disclosure(h("summary", {}, "What changed: all heads"), [this.waiting, this.map.element], () =>
      app.set({ changes: !app.state.changes }),
    );
  }

  // The numbers of all heads, while they are on screen.
  get shown(): HeadMapContent | null {
    return this.element.isConnected && !this.element.hidden && this.element.open ? this.map.content : null;
  }

  // Nothing to rank where the sides are two heads, or two models of different shapes.
  update(first: ChangedSide | null, second: ChangedSide | null, shared: Alignment | null): void {
    const { app } = this;
    const { against, changes, what } = app.state;
    const alike =
      first && second && shared && against !== "head" &&
      first.overview.layers.length === second.overview.layers.length &&
      first.overview.heads.length === second.overview.heads.length;
    this.element.hidden = !alike;
    if (!alike) return;
    this.element.open = changes;
    if (!changes) return;
    const key = [first.overview, second.overview, first.axis, second.axis, what];
    if (key.some((part, n) => part !== this.key[n])) ((this.key = key), (this.values = []));
    this.proceed(first, second, shared);
    this.show(first.overview.layers.length);
  }

  // A layer a frame: the page stays fluent while all heads are compared.
  private proceed(first: ChangedSide, second: ChangedSide, shared: Alignment): void {
    const l = this.values.length;
    if (l >= first.overview.layers.length) return;
    const rows = [tokensOf(first.axis, shared.first), tokensOf(second.axis, shared.second)] as const;
    const T = [first.overview.encoding.ids.length, second.overview.encoding.ids.length] as const;
    if (this.app.state.what === "attention") {
      const [a, b] = [first, second].map(({ overview, asked }) => this.app.attention(overview, l, asked));
      if (!a || !b) return;
      this.values.push(a.map((map, k) => attentionChange(map, b[k]!, T, rows)));
    } else {
      const outputs = ({ overview }: ChangedSide, k: number): Float32Array =>
        fromHalves(partAt(overview.headOutputs as Uint16Array, overview, l, k));
      this.values.push(
        first.overview.heads.map((_, k) => similarityChange(outputs(first, k), outputs(second, k), T, rows)),
      );
    }
    this.app.draw();
  }

  private show(layers: number): void {
    const { app, values } = this;
    const { map, what, against } = app.state;
    this.waiting.hidden = values.length === layers;
    if (!values.length) return;
    const top = Math.max(0, ...values.flat().map((v) => v ?? 0));
    const label = `Change of ${what}`;
    this.map.show({
      name: `${what}_change`,
      values,
      place: (v) => (top > 0 ? v / top : 0),
      bar: { lut: lutOf(map, what, app.theme), label, ticks: ticksOf(top, "linear"), words: wordsOf("linear", 0, top) },
      write: format,
      caption:
        `${label} of each head: norm of the difference over the norm of the first, over the tokens that correspond` +
        (against === "off" ? "; heads before the one switched off cannot change" : ""),
    });
  }
}

// The tokens of the entries: the first piece stands for a merged word.
const tokensOf = (axis: Axis, entries: readonly number[]): number[] => entries.map((t) => axis.groups[t]![0]!);
