// Says that effects are estimated and what a gradient misses, and offers exact ones.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { inWords } from "../../app/problems";
import type { Selection } from "../../app/selection";
import type { Estimates } from "../../passes/estimates";
import { useApp } from "../../ui/context";
import { StateToggle } from "../../ui/state-controls";
import { StatusLine, statusOf } from "../../ui/status";
import { EXACT_MOST } from "./state";

// The heads whose effects are computed: those requested, and the chosen one.
export function exactHeads(app: App, { layers, heads }: Answer): readonly Selection[] {
  const { exact, layer, head } = app.state;
  return [...exact.map(([layer, head]) => ({ layer, head })), { layer, head }].filter(
    (one, n, all) =>
      layers.includes(one.layer) &&
      heads.includes(one.head) &&
      all.findIndex((other) => other.layer === one.layer && other.head === one.head) === n,
  );
}

export function computeExactly(app: App, layer: number, head: number): void {
  const others = app.state.exact.filter(([l, h]) => l !== layer || h !== head);
  app.set({ exact: [...others.slice(1 - EXACT_MOST), [layer, head]] });
}

// For the row of controls.
export const ExactToggle = ({ of: { refused } }: { of: Estimates }) =>
  refused ? null : <StateToggle field="exactly" help="estimate" />;

export const EstimateKey = () => (
  <div class="legend estimate-key">
    <i class="estimate" aria-hidden="true" /> estimate
  </div>
);

export function EstimateNote({ of: { rows, estimate, refused, exact, waiting } }: { of: Estimates }) {
  const app = useApp();
  if (refused) return <StatusLine>No estimate, so every head is switched off: {inWords(refused)}</StatusLine>;
  return (
    <>
      {exact ? null : statusOf(app, estimate)}
      {statusOf(app, waiting, true)}
      {rows.some((row) => row?.some(({ estimated }) => estimated)) && (
        <p class="muted caption">
          A gradient describes small changes only, so it misses heads that are saturated. Compute the exact effect of
          heads that matter.
        </p>
      )}
    </>
  );
}
