// The three maps of a comparison side by side.
import { useLayoutEffect } from "preact/hooks";
import { SIDES, type Side } from "./align";
import type { MapTrio, Pair } from "./map-trio";
import { Plate } from "./plate";

export type Heading = Record<Side, { title: string; note: string }>;

export function TrioPlates({ trio, pair, heading }: { trio: MapTrio; pair: Pair | null; heading: Heading | null }) {
  useLayoutEffect(() => trio.update(pair));
  return (
    <div class="plates three" hidden={!pair}>
      {SIDES.map((side) => (
        <Plate
          key={side}
          title={heading?.[side].title ?? ""}
          note={heading?.[side].note ?? ""}
          bar={pair && { ...pair.contents[side], label: trio.wording.labels[side] }}
          heatmap={trio.maps[side]}
        />
      ))}
    </div>
  );
}
