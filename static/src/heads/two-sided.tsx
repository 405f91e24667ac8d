// A head between two columns of tokens: those that read on the left, those that are read on the right, a line for each
// attention. For short texts. A token of the left column shows its lines alone.
import { useState } from "preact/hooks";
import { topTargets } from "./targets";
import type { Head } from "../maps/analysis";
import { percent } from "../maps/scale";
import { useApp } from "../ui/context";
import { Button } from "../ui/controls";
import { StatusLine } from "../ui/status";

export const TWO_SIDED_MOST = 64; // tokens
const ROW = 24,
  WIDE = 320,
  FAINT = 0.02; // attention below it has no line

export function TwoSided({ head }: { head: Head }) {
  const app = useApp();
  const { axis, columns, attention } = head;
  const [seen, setSeen] = useState(-1);
  const pinned = axis.groups.findIndex((group) => group.includes(app.state.pin[0] ?? -1));
  const chosen = seen >= 0 ? seen : pinned;
  const targets = (i: number): string =>
    topTargets(attention, columns.n, i)
      .map(({ j, value }) => `${columns.labels[j]} ${columns.positions[j]}: ${percent(value)}`)
      .join(", ");
  const pin = (i: number): void => {
    const [best] = topTargets(attention, columns.n, i);
    const [from, to] = [axis.groups[i]?.[0], best && columns.groups[best.j]?.[0]];
    if (from !== undefined && to !== undefined) app.pin(i === pinned ? [] : [from, to]);
  };
  const best = chosen < 0 ? [] : topTargets(attention, columns.n, chosen).map(({ j }) => j);
  const y = (t: number): number => (t + 0.5) * ROW;
  const lines = Array.from({ length: axis.n }, (_, i) => i).flatMap((i) =>
    Array.from({ length: columns.n }, (_, j) => ({ i, j, value: attention[i * columns.n + j] ?? 0 })),
  );
  const high = Math.max(axis.n, columns.n) * ROW;
  return (
    <>
      <StatusLine>
        {chosen < 0
          ? "Point at a token on the left to see its lines alone."
          : `${axis.labels[chosen]} ${axis.positions[chosen]} attends to ${targets(chosen)}`}
      </StatusLine>
      <div class="two-sided" onPointerLeave={() => setSeen(-1)}>
        <ol aria-label="Tokens that attend">
          {axis.labels.map((label, i) => (
            <li key={i}>
              <Button
                class={i === chosen ? "held" : ""}
                aria-pressed={i === pinned}
                title={targets(i)}
                onPointerEnter={() => setSeen(i)}
                onFocus={() => setSeen(i)}
                onBlur={() => setSeen(-1)}
                onClick={() => pin(i)}
              >
                {label}
              </Button>
            </li>
          ))}
        </ol>
        <svg viewBox={`0 0 ${WIDE} ${high}`} width={WIDE} height={high} preserveAspectRatio="none" aria-hidden="true">
          {lines
            .filter(({ i, value }) => value >= FAINT && (chosen < 0 || i === chosen))
            .map(({ i, j, value }) => (
              <path
                key={`${i} ${j}`}
                d={`M0 ${y(i)}C${WIDE / 2} ${y(i)} ${WIDE / 2} ${y(j)} ${WIDE} ${y(j)}`}
                stroke-width={1 + 3 * value}
                opacity={value}
              />
            ))}
        </svg>
        <ol aria-hidden="true">
          {columns.labels.map((label, j) => (
            <li key={j} class={best.includes(j) ? "held" : ""}>
              {label}
            </li>
          ))}
        </ol>
      </div>
    </>
  );
}
