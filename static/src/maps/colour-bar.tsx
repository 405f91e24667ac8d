// A horizontal colour bar with its ticks, and in words the kind of its scale and its range.
import { useMemo } from "preact/hooks";
import { cssOf, type Lut } from "./colour";
import type { Tick } from "./scale";

const STOPS = 33;

export interface Bar {
  label: string;
  lut: Lut;
  ticks: readonly Tick[];
  words: string;
}

export function ColourBar({ label, lut, ticks, words }: Bar) {
  const gradient = useMemo(() => {
    const stops = Array.from({ length: STOPS }, (_, n) => cssOf(lut, n / (STOPS - 1)));
    return `linear-gradient(to right, ${stops.join(", ")})`;
  }, [lut]);
  return (
    <div class="colour-bar" role="img" aria-label={`${label}: ${words}`}>
      <span class="name">{label}</span>
      <div class="scale">
        <div class="strip" style={{ background: gradient }} />
        <div class="ticks">
          {ticks.map((tick) => (
            <span
              key={tick.at}
              class={tick.at <= 0 ? "first" : tick.at >= 1 ? "last" : ""}
              style={{ left: `${tick.at * 100}%` }}
            >
              {tick.label}
            </span>
          ))}
        </div>
      </div>
      <span class="words">{words}</span>
    </div>
  );
}
