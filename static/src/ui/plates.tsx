// Maps, each with its title and colour bar: one, or the three of a comparison side by side.
import { useLayoutEffect } from "preact/hooks";
import { SIDES, type Side } from "../maps/align";
import { ColourBar, type Bar } from "../maps/colour-bar";
import type { Heatmap } from "../maps/heatmap";
import type { MapTrio, Pair } from "../maps/map-trio";
import { Adopt } from "./controls";

export function Plate(props: { title: string; note: string; bar: Bar | null; heatmap: Heatmap }) {
  return (
    <figure class="plate">
      <figcaption>
        <div>
          <h2>{props.title}</h2>
          <p class="muted">{props.note}</p>
        </div>
        <div>{props.bar && <ColourBar {...props.bar} />}</div>
      </figcaption>
      <Adopt element={props.heatmap.element} />
    </figure>
  );
}

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
