// The heads whose attention is drawn as lines over the text: the one on screen, and those ticked with it.
import { isLong } from "../../app/answer";
import type { App } from "../../app/app";
import { SUM, type Selection, type Shape } from "../../app/selection";
import { headsOf } from "../../heads/heads";
import { jointMap, jointOf } from "../../heads/joint";
import { isRectangular, type Axis, type Head } from "../../maps/analysis";
import { project } from "../../maps/axis";
import { useApp } from "../../ui/context";
import { attentionRows, rowsOfOthers, type Rows } from "./rows";
import { LINES_MOST } from "./state";

export interface LineHead extends Selection {
  lane: number; // the number of its colour
  name: string;
  rows: Rows | null; // null: its maps are on their way
}

export const nameOfLine = ({ layer, head }: Selection): string => `${layer}·${head === SUM ? "sum" : head}`;
export const isSame = (a: Selection, b: Selection): boolean => a.layer === b.layer && a.head === b.head;

const FIRST = 4; // heads drawn before one is ticked

// The heads that are drawn, the one on screen among them. Until some are ticked, the next ones of its layer.
function drawnHeads(app: App, shape: Shape | null, shown: Selection): Selection[] {
  if (!shape) return [shown];
  const ticked = app.state.beside
    .map(([layer, head]) => ({ layer, head }))
    .filter(({ layer, head }) => layer < shape.layers && head < shape.heads);
  if (ticked.length)
    return ticked.some((one) => isSame(one, shown)) ? ticked : [...ticked.slice(1 - LINES_MOST), shown];
  if (shown.head === SUM) return [shown];
  const count = Math.min(FIRST, shape.heads);
  return Array.from({ length: count }, (_, n) => ({ ...shown, head: (shown.head + n) % shape.heads }));
}

// A colour for each head: that of its number, or the next free one.
function lanesOf(heads: readonly Selection[]): number[] {
  const taken = new Set<number>();
  return heads.map(({ head }) => {
    let lane = Math.max(0, head) % LINES_MOST;
    while (taken.has(lane) && taken.size < LINES_MOST) lane = (lane + 1) % LINES_MOST;
    taken.add(lane);
    return lane;
  });
}

const projected = new WeakMap<Uint8Array, { axis: Axis; rows: Rows }>();

function rowsAt(app: App, own: Head, { layer, head }: Selection): Rows | null {
  const { axis, columns } = own;
  const overview = app.overview().answer;
  const bytes = overview && headsOf(app).attention(overview, layer)?.[head];
  if (!bytes) return null;
  let known = projected.get(bytes);
  if (known?.axis !== axis) {
    const map = project(bytes, overview.encoding.ids.length, axis, "attention", 1 / 255, columns);
    const joint = isRectangular(own) ? jointMap(map, axis.n, columns.n) : map;
    known = { axis, rows: attentionRows(jointOf(own).axis, joint) };
    projected.set(bytes, known);
  }
  return known.rows;
}

// `own`: the head on screen, whose rows are `rows`; null: of a long text, whose maps are not here.
export function lineHeads(
  app: App,
  own: Head | null,
  shown: Selection,
  rows: Rows,
  chosen: readonly number[],
): LineHead[] {
  const overview = app.overview().answer;
  const heads = drawnHeads(app, app.shape(overview, app.state.model), shown);
  const lanes = lanesOf(heads);
  const others = heads.filter((one) => !isSame(one, shown));
  const fetched = !own || isLong(overview) ? rowsOfOthers(app, rows.axis, others, chosen) : null;
  const rowsOfOne = (one: Selection): Rows | null => {
    if (isSame(one, shown)) return rows;
    return fetched ? (fetched[others.indexOf(one)] ?? null) : own && rowsAt(app, own, one);
  };
  return heads.map((one, n) => ({ ...one, lane: lanes[n] ?? 0, name: nameOfLine(one), rows: rowsOfOne(one) }));
}

// Ticks for the heads of the layer on screen, and for those of other layers that are drawn.
export function LineHeads({ heads, shown }: { heads: readonly LineHead[]; shown: Selection }) {
  const app = useApp();
  const shape = app.shape(app.overview().answer, app.state.model);
  const ofLayer = Array.from({ length: shape?.heads ?? 0 }, (_, head) => ({ layer: shown.layer, head }));
  const others = heads.filter((one) => one.layer !== shown.layer || one.head === SUM);
  const set = (next: readonly Selection[]): void =>
    app.set({ beside: next.filter(({ head }) => head !== SUM).map(({ layer, head }) => [layer, head] as const) });
  return (
    <div class="line-heads" role="toolbar" aria-label="Heads whose attention is drawn">
      <span class="muted">Lines of</span>
      {[...others, ...ofLayer].map((one) => {
        const drawn = heads.find((other) => isSame(other, one));
        const full = !drawn && heads.length >= LINES_MOST;
        const title = isSame(one, shown)
          ? "The head on screen is always drawn"
          : full
            ? `At most ${LINES_MOST} heads are drawn`
            : "Draws this head’s attention as lines of a colour of its own";
        return (
          <label class={drawn ? "line-head" : "line-head undrawn"} key={nameOfLine(one)} title={title}>
            <input
              type="checkbox"
              checked={drawn !== undefined}
              disabled={full || isSame(one, shown)}
              onChange={() => set(drawn ? heads.filter((other) => other !== drawn) : [...heads, one])}
            />
            {drawn && <i aria-hidden="true" style={{ background: `var(--line-${drawn.lane})` }} />}
            {nameOfLine(one)}
          </label>
        );
      })}
    </div>
  );
}
