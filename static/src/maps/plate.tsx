// A map with its title and colour bar.
import { Adopt } from "../ui/controls";
import { ColourBar, type Bar } from "./colour-bar";
import type { Heatmap } from "./heatmap";

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
