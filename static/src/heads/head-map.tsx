// A number for every head as a map of layers by heads, with the largest listed beside it.
import { tinted } from "../maps/colour";
import { ColourBar } from "../maps/colour-bar";
import { LISTED, rankHeads } from "./between";
import { Columns } from "../ui/table";
import type { Tint } from "./tint";
import { Button } from "../ui/controls";

export interface HeadNumbers extends Tint {
  name: string; // of the numbers in a file
  write(this: void, value: number): string;
  caption: string;
  chance?: number; // heads at or below it have no more than an even spread gives
}

type Open = (layer: number, head: number) => void;

export function HeadMap({ of, onOpen }: { of: HeadNumbers; onOpen: Open }) {
  const { values, bar, caption, write, chance = -Infinity } = of;
  const ranked = rankHeads(values);
  const listed = ranked.slice(0, LISTED);
  const above = of.chance === undefined ? null : ranked.filter(({ value }) => value > chance).length;
  return (
    <div class="head-map" role="group" aria-label="All heads">
      <div class="wide" tabIndex={0} role="region" aria-label={caption}>
        {ranked.length > 0 && <ColourBar {...bar} />}
        <table>
          <caption>{caption}</caption>
          <Columns of={["Layer", ...(values[0] ?? []).map((_, k) => `H${k}`)]} />
          <tbody>
            {values.map((row, l) => (
              <tr key={l}>
                <th scope="row">L{l}</th>
                {row.map((value, k) => (
                  <Cell key={k} of={of} value={value} name={`Layer ${l}, head ${k}`} onOpen={() => onOpen(l, k)} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div>
        <ol class="ranked" aria-label="Heads, strongest first">
          {listed.map(({ l, h, value }) => (
            <HeadItem
              key={`${l} ${h}`}
              layer={l}
              head={h}
              value={write(value) + (value <= chance ? " (chance)" : "")}
              onOpen={onOpen}
            />
          ))}
        </ol>
        {above !== null && (
          <p class="muted chance">
            {above} of {ranked.length} heads lie above chance: an even spread over all tokens gives {write(chance)}.
          </p>
        )}
      </div>
    </div>
  );
}

function Cell(props: { of: HeadNumbers; value: number | null; name: string; onOpen: () => void }) {
  const { place, bar, write } = props.of;
  const at = props.value === null ? null : place(props.value);
  const written = props.value === null ? "–" : write(props.value);
  const style = at === null ? {} : tinted(bar.lut, at);
  return (
    <td title={`${props.name}: ${written}`} style={style} onClick={props.onOpen}>
      <span>{written}</span>
    </td>
  );
}

// A head in a table, by its short name.
export const HeadLink = ({ layer, head, onOpen }: { layer: number; head: number; onOpen: Open }) => (
  <Button class="link" onClick={() => onOpen(layer, head)}>
    L{layer} H{head}
  </Button>
);

// A head in a list, with its number.
function HeadItem(props: { layer: number; head: number; value: string; onOpen: Open }) {
  return (
    <li>
      <Button class="link" onClick={() => props.onOpen(props.layer, props.head)}>
        Layer {props.layer} head {props.head}
      </Button>
      <b>{props.value}</b>
    </li>
  );
}
