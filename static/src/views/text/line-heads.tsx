// The heads whose attention is drawn as lines over the text: the one on screen, and those added to it.
import type { App } from "../../app/app";
import { SUM, type Selection } from "../../heads/selection";
import type { Axis } from "../../maps/analysis";
import { project } from "../../maps/axis";
import { useApp } from "../../ui/context";
import { Button } from "../../ui/controls";
import { BESIDE_MOST } from "./state";

export interface LineHead extends Selection {
  lane: number; // the number of its colour
  name: string;
  attention: Float32Array | null; // [n][n]; null: its maps are on their way
}

const nameOf = ({ layer, head }: Selection): string => `${layer}·${head === SUM ? "sum" : head}`;
const isSame = (a: Selection, b: Selection): boolean => a.layer === b.layer && a.head === b.head;
const laneColour = (lane: number): string => `--line-${lane}`;

// The added heads that the model has.
function addedHeads({ state }: App, shape: { layers: number; heads: number }): Selection[] {
  return state.beside
    .map(([layer, head]) => ({ layer, head }))
    .filter(({ layer, head }) => layer < shape.layers && head < shape.heads);
}

const projected = new WeakMap<Uint8Array, { axis: Axis; map: Float32Array }>();

function mapOf(app: App, axis: Axis, { layer, head }: Selection): Float32Array | null {
  const overview = app.overview().answer;
  const bytes = overview && app.attention(overview, layer)?.[head];
  if (!bytes) return null;
  let known = projected.get(bytes);
  if (known?.axis !== axis) {
    known = { axis, map: project(bytes, overview.encoding.ids.length, axis, "attention", 1 / 255) };
    projected.set(bytes, known);
  }
  return known.map;
}

// Added heads come first, so that each keeps its colour when another one is chosen.
export function lineHeads(app: App, axis: Axis, shown: Selection, attention: Float32Array): LineHead[] {
  const shape = app.shape(app.overview().answer, app.state.model);
  const added = shape ? addedHeads(app, shape) : [];
  const all = added.some((one) => isSame(one, shown)) ? added : [...added, shown];
  return all.map((one, lane) => ({
    ...one,
    lane,
    name: nameOf(one),
    attention: isSame(one, shown) ? attention : mapOf(app, axis, one),
  }));
}

export function LineHeads({ heads, shown }: { heads: readonly LineHead[]; shown: Selection }) {
  const app = useApp();
  const shape = app.shape(app.overview().answer, app.state.model);
  const added = shape ? addedHeads(app, shape) : [];
  const isAdded = (one: Selection): boolean => added.some((other) => isSame(other, one));
  const set = (beside: readonly Selection[]): void =>
    app.set({ beside: beside.map(({ layer, head }) => [layer, head] as const) });
  const free = shown.head !== SUM && !isAdded(shown) && added.length < BESIDE_MOST;
  return (
    <div class="line-heads" role="group" aria-label="Heads whose attention is drawn">
      <span class="muted">{heads.length > 1 ? "Lines of" : "Lines of head"}</span>
      {heads.map((one) => (
        <span class="line-head" key={one.name}>
          <i aria-hidden="true" style={{ background: `var(${laneColour(one.lane)})` }} />
          <Button
            class="link"
            title="Shows this head"
            onClick={() => app.set({ layer: one.layer, head: one.head }, true)}
          >
            {one.name}
          </Button>
          {isAdded(one) && (
            <Button
              class="link drop-head"
              aria-label={`Remove the lines of ${one.name}`}
              onClick={() => set(added.filter((other) => !isSame(other, one)))}
            >
              ×
            </Button>
          )}
        </span>
      ))}
      {free && (
        <Button
          class="keep-head"
          title={`The lines of ${nameOf(shown)} stay while another head is chosen above`}
          onClick={() => set([...added, shown])}
        >
          Add another head
        </Button>
      )}
    </div>
  );
}
