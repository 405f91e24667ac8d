// Ranks all heads by the change of their maps between the two sides of a comparison.
import { useRef } from "preact/hooks";
import { isLong, type Answer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Requested } from "../../app/requests";
import { attentionChange, similarityChange } from "../../heads/change";
import { HeadMap, type HeadNumbers } from "../../heads/head-map";
import { outputsAt } from "../../heads/outputs";
import { linearTint } from "../../heads/tint";
import { headsOf } from "../../heads/heads";
import { SHORT_ONLY } from "../../heads/pooled";
import type { Alignment } from "../../maps/align";
import type { Axis } from "../../maps/analysis";
import { tokensOf } from "../../maps/axis";
import { lutOf } from "../../maps/colour";
import { format } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { StatusLine } from "../../ui/status";
import { StateDisclosure } from "../../ui/state-controls";

export interface ChangedSide {
  overview: Answer;
  requested: Requested;
  axis: Axis;
}

type Rows = (number | null)[][]; // [l][h], of the layers compared so far

// True if each head of one model has a counterpart in the other.
export const haveCounterparts = (first: Answer, second: Answer): boolean =>
  first.layers.length === second.layers.length && first.heads.length === second.heads.length;

// A layer's changes; null while its maps are on their way.
function changesOf(
  app: App,
  l: number,
  first: ChangedSide,
  second: ChangedSide,
  shared: Alignment,
): Rows[number] | null {
  const rows = [tokensOf(first.axis, shared.first), tokensOf(second.axis, shared.second)] as const;
  const T = [first.overview.encoding.ids.length, second.overview.encoding.ids.length] as const;
  if (app.state.what === "attention") {
    const [a, b] = [first, second].map(({ overview, requested }) => headsOf(app).attention(overview, l, requested));
    if (!a || !b) return null;
    return a.map((map, k) => attentionChange(map, b[k] ?? [], T, rows));
  }
  const outputs = ({ overview }: ChangedSide, k: number): Float32Array => outputsAt(overview, l, k);
  return first.overview.heads.map((_, k) => similarityChange(outputs(first, k), outputs(second, k), T, rows));
}

// Compares one layer a frame, so that the page stays fluent.
function useChanges(open: boolean, first: ChangedSide | null, second: ChangedSide | null, shared: Alignment): Rows {
  const app = useApp();
  const known = useRef<{ key: unknown[]; rows: Rows }>({ key: [], rows: [] });
  if (!open || !first || !second || [first, second].some(({ overview }) => isLong(overview))) return known.current.rows;
  const key = [first.overview, second.overview, first.axis, second.axis, app.state.what];
  if (key.some((part, n) => part !== known.current.key[n])) known.current = { key, rows: [] };
  const { rows } = known.current;
  if (rows.length < first.overview.layers.length) {
    const next = changesOf(app, rows.length, first, second, shared);
    if (next) {
      rows.push(next);
      app.draw();
    }
  }
  return rows;
}

function numbersOf({ state, theme }: App, rows: Rows): HeadNumbers {
  const { map, what, against } = state;
  const label = `Change of ${what}`;
  return {
    name: `${what}_change`,
    ...linearTint(rows, label, lutOf(map, what, theme)),
    write: format,
    caption:
      `${label} of each head: norm of the difference over the norm of the first, over the tokens that correspond` +
      (against === "off" ? "; heads before the one switched off cannot change" : ""),
  };
}

export function Changes(props: {
  first: ChangedSide | null; // null: not here yet
  second: ChangedSide | null;
  shared: Alignment;
  onNumbers: (numbers: HeadNumbers | null) => void; // of all heads, while they are shown
}) {
  const app = useApp();
  const { changes, against } = app.state;
  const rows = useChanges(changes, props.first, props.second, props.shared);
  const long = [props.first, props.second].some((side) => isLong(side?.overview));
  const numbers = changes && !long && rows.length > 0 ? numbersOf(app, rows) : null;
  props.onNumbers(numbers);
  const open = (layer: number, head: number): void =>
    against === "off" ? app.pick(layer, head) : app.set({ layer, head, layer2: layer, head2: head }, true);
  const waiting = rows.length < (props.first?.overview.layers.length ?? 1);
  return (
    <StateDisclosure field="changes" title="Rank all heads by their change">
      {long ? <p class="muted">{SHORT_ONLY}</p> : waiting && <StatusLine>Comparing the heads…</StatusLine>}
      {numbers && <HeadMap of={numbers} onOpen={open} />}
    </StateDisclosure>
  );
}
