// A head of a text whose maps are too large for a page: pooled maps, and a window of them where the reader clicks.
import { useLayoutEffect, useMemo } from "preact/hooks";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { pooledHeadRequest, poolOf, savedWindowRequest, windowRequest, type Range } from "../../app/requests";
import { nameOf, titleOf, type Selection } from "../../app/selection";
import { PairRanking } from "../../heads/pair-ranking";
import { tokenAxisOf } from "../../maps/axis";
import type { Axis } from "../../maps/analysis";
import { Heatmap, type Cell } from "../../maps/heatmap";
import { Plate } from "../../ui/plates";
import { format } from "../../maps/scale";
import { shadeOf, type Shade } from "../../maps/shade";
import { Viewport } from "../../maps/viewport";
import type { Exportable } from "../../saving/export";
import { useExport } from "../../saving/offer";
import { madeOf } from "../../saving/provenance";
import { Notes } from "../../story/notes";
import { useApp } from "../../ui/context";
import { statusOf, StatusLine } from "../../ui/status";
import { QUANTITIES } from "./plates";

const SIDE = 128; // tokens along a window

type Quantity = (typeof QUANTITIES)[number];
type Pinned = readonly [row: number, column: number]; // token positions

// A square part of both maps. Each row and column stands for the tokens from its place on.
interface Part {
  attention: Float32Array; // [n][n]
  similarity: Float32Array;
  rows: readonly number[];
  columns: readonly number[];
  width: number; // tokens of a row
  lower: boolean;
}

// The cell of a part that two tokens are in; null if the part has none.
export function cellIn({ rows, columns, width }: Pick<Part, "rows" | "columns" | "width">, pair: Pinned): Cell | null {
  const of = (starts: readonly number[], t: number): number =>
    starts.findIndex((from) => from <= t && t < from + width);
  const cell = [of(rows, pair[0]), of(columns, pair[1])] as const;
  return cell.some((k) => k < 0) ? null : cell;
}

// The two maps of a part under one cross-hair.
class LinkedMaps {
  private readonly viewport = new Viewport();
  readonly maps: Record<Quantity, Heatmap>;
  private part: Part | null = null;
  private axis: Axis | null = null;
  private shown: Record<Quantity, Shade> | null = null;
  private pointed: Cell | null = null;
  private pinned: Cell | null = null;

  constructor(
    private readonly app: App,
    name: string,
  ) {
    this.maps = {
      attention: this.heatmap(`Attention map, ${name}`),
      similarity: this.heatmap(`Context similarity map, ${name}`),
    };
  }

  private heatmap(label: string): Heatmap {
    return new Heatmap(label, this.viewport, {
      hover: (cell) => {
        this.pointed = cell;
        this.mark();
        const words = cell ? this.describe(cell) : "";
        this.app.announce(words);
        return words;
      },
      pick: ([row, column]) => {
        const { part } = this;
        if (!part) return;
        this.app.announce(this.describe([row, column]), true);
        this.app.pin([part.rows[row] ?? 0, part.columns[column] ?? 0]);
      },
    });
  }

  private mark(): void {
    for (const map of Object.values(this.maps)) map.point(this.pointed, this.pinned);
  }

  private describe([row, column]: Cell): string {
    const { part, axis } = this;
    if (!part || !axis) return "";
    const named = (t: number): string =>
      part.width > 1 ? `${t}–${Math.min(axis.n, t + part.width) - 1}` : `${axis.labels[t]} ${t}`;
    const at = row * part.rows.length + column;
    return [
      `${named(part.rows[row] ?? 0)} → ${named(part.columns[column] ?? 0)}`,
      `A ${format(part.attention[at])}`,
      `S ${format(part.similarity[at])}`,
    ].join("   ");
  }

  private made: { part: Part; key: string; shades: Record<Quantity, Shade> } | null = null;

  // The colours of both maps, made once as long as nothing changes.
  private shadesOf(part: Part): Record<Quantity, Shade> {
    const { state, theme } = this.app;
    const key = [state.scale, state.map, theme].join(" ");
    if (this.made?.part !== part || this.made.key !== key) {
      const of = (quantity: Quantity): Shade =>
        shadeOf(part[quantity], part.rows.length, quantity, { ...state, theme, weigh: false });
      this.made = { part, key, shades: { attention: of("attention"), similarity: of("similarity") } };
    }
    return this.made.shades;
  }

  update(part: Part | null, axis: Axis, pair: Pinned | null): void {
    if (!part) return;
    this.draw(part, axis);
    this.pinned = pair && cellIn(part, pair);
    this.mark();
  }

  private draw(part: Part, axis: Axis): void {
    const shades = this.shadesOf(part);
    if (shades === this.shown) return;
    this.shown = shades;
    const n = part.rows.length;
    if (this.part?.rows.length !== n) this.viewport.reset(n);
    [this.part, this.axis] = [part, axis];
    const labelled = (tokens: readonly number[]) => ({
      labels: tokens.map((t) => (part.width > 1 ? `${axis.labels[t]} ${t}` : (axis.labels[t] ?? ""))),
      faint: tokens.map((t) => axis.special[t] ?? false),
    });
    for (const quantity of QUANTITIES)
      this.maps[quantity].show({
        ...shades[quantity],
        ...labelled(part.rows),
        columns: labelled(part.columns),
        n,
        lower: part.lower && quantity === "attention",
      });
    performance.mark("head-drawn");
  }

  plates(part: Part, title: string, note: string) {
    const shades = this.shadesOf(part);
    return (
      <div class="plates">
        {QUANTITIES.map((quantity) => {
          const label = quantity === "attention" ? "Attention" : "Context similarity";
          return (
            <Plate
              key={quantity}
              title={`${label}, ${title}`}
              note={note}
              bar={{ ...shades[quantity], label }}
              heatmap={this.maps[quantity]}
            />
          );
        })}
      </div>
    );
  }
}

// The window of whole tiles that a token is in.
const tileOf = (t: number, T: number): Range => {
  const from = Math.max(0, Math.min(Math.floor(t / SIDE) * SIDE, T - SIDE));
  return [from, Math.min(T, from + SIDE)];
};
const each = ([from, to]: Range): number[] => Array.from({ length: to - from }, (_, k) => from + k);

export function LongHead({ overview, selection }: { overview: Answer; selection: Selection }) {
  const app = useApp();
  const { state } = app;
  const { encoding } = overview;
  const T = encoding.ids.length;
  const axis = tokenAxisOf(encoding);
  const pooledMaps = useMemo(() => new LinkedMaps(app, "pooled"), [app]);
  const windowMaps = useMemo(() => new LinkedMaps(app, "window"), [app]);
  const { layer, head } = selection;
  const whole = app.cache.want(pooledHeadRequest(state, layer, head, T));
  const [i, j] = state.pin;
  const pair = i !== undefined && j !== undefined && i < T && j < T ? ([i, j] as const) : null;
  const [rows, columns] = (pair ?? [0, 0]).map((t) => tileOf(t, T)) as [Range, Range];
  const near = app.cache.want(windowRequest(state, layer, head, rows, columns));
  const pooled = useMemo(() => whole.answer && pooledPart(whole.answer, poolOf(T)), [whole.answer]);
  const part = useMemo(() => near.answer && windowPart(near.answer, rows, columns), [near.answer]);
  useExport(() => (pooled && part && near.answer ? partExport(app, part, axis, near.answer, selection) : null));
  useLayoutEffect(() => {
    pooledMaps.update(pooled, axis, pair);
    windowMaps.update(part, axis, pair);
  });
  const size = poolOf(T);
  const cell = pair && { at: pair, about: pair.map((t) => `${axis.labels[t]} ${t}`).join(" → ") };
  return (
    <>
      <StatusLine>
        {titleOf(selection)} has {(T * T).toLocaleString("en")} cells. Each cell of the pooled maps is the largest of{" "}
        {size} × {size}. Click one to see its window below.
      </StatusLine>
      {statusOf(app, whole)}
      {pooled && pooledMaps.plates(pooled, "pooled", `largest of ${size} × ${size} cells`)}
      {statusOf(app, near)}
      {part && windowMaps.plates(part, "window", `tokens ${rows[0]}–${rows[1] - 1} by ${columns[0]}–${columns[1] - 1}`)}
      {pair && <PairRanking axis={axis} pair={pair} />}
      <Notes selection={selection} cell={cell} />
    </>
  );
}

// The table has the window's cells; the arrays also have the pooled maps.
function partExport(app: App, part: Part, axis: Axis, answer: Answer, { layer, head }: Selection): Exportable {
  const { rows, columns, attention, similarity } = part;
  const request = savedWindowRequest(app.state, layer, head, axis.n, rows, columns);
  const cell = (i: number, j: number, at: number): (string | number)[] => [
    ...[i, j],
    ...[i, j].map((t) => axis.labels[t] ?? ""),
    ...[attention, similarity].map((map) => map[at] ?? NaN),
  ];
  return {
    ...madeOf(app, answer, `head-${nameOf({ layer, head })}-window`, request),
    rows: () => [
      ["i", "j", "token_i", "token_j", "attention", "similarity"],
      ...rows.flatMap((i, y) => columns.map((j, x) => cell(i, j, y * columns.length + x))),
    ],
    figure: false,
  };
}

function pooledPart({ pooled, encoding }: Answer, width: number): Part | null {
  if (!pooled) return null;
  const starts = Array.from({ length: pooled.side }, (_, b) => b * width);
  const { attention, similarity } = pooled as { attention: Float32Array; similarity: Float32Array };
  return { attention, similarity, rows: starts, columns: starts, width, lower: encoding.causal };
}

function windowPart({ parts: { attention, similarity } }: Answer, rows: Range, columns: Range): Part | null {
  if (!attention || !similarity) return null;
  return { attention, similarity, rows: each(rows), columns: each(columns), width: 1, lower: false };
}
