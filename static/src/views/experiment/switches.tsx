// Every head as a switch, layers down, heads across: a click changes the head in the pass; the colour shows the result.
// One stop for the Tab key, arrows within.
import { useState } from "preact/hooks";
import type { Selection } from "../../app/selection";
import { tinted } from "../../maps/colour";
import { format } from "../../maps/scale";
import { capital } from "../../app/words";
import { moveFocus } from "../../ui/arrows";
import { classes } from "../../ui/classes";
import { doesOf, same, signOf, type Edit } from "../../passes/interventions";
import type { HeadTint } from "../../passes/tones";

interface Events {
  onToggle: (layer: number, head: number) => void;
  onToggleLayer: (layer: number) => void;
  onShow: (layer: number, head: number) => void; // the head's maps
}

export function HeadSwitches(
  props: Events & {
    layers: number;
    heads: number;
    edits: readonly Edit[];
    tint: HeadTint | null;
    chosen: Selection;
  },
) {
  const { layers, heads, edits, tint, chosen } = props;
  const [stop, setStop] = useState<readonly [row: number, column: number]>([0, 1]); // column 0: the layer's own button
  const columns = Array.from({ length: heads }, (_, k) => k);
  const onKeyDown = (e: KeyboardEvent): void => {
    const [l, k] = stop;
    if (e.key === "Enter" && e.shiftKey && k) {
      e.preventDefault();
      return props.onShow(l, k - 1);
    }
    moveFocus(e, [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")], heads + 1);
  };
  const roving = (l: number, k: number) => ({
    tabIndex: l === stop[0] && k === stop[1] ? 0 : -1,
    onFocus: () => setStop([l, k]),
  });
  return (
    <div
      class="switches"
      role="grid"
      aria-label="Heads to change, layers by heads"
      style={{ "--heads": heads }}
      onKeyDown={onKeyDown}
    >
      <div role="row" class="header">
        <div role="columnheader">
          <span class="hidden">Layer</span>
        </div>
        {columns.map((k) => (
          <div role="columnheader" key={k}>
            H{k}
          </div>
        ))}
      </div>
      {Array.from({ length: layers }, (_, l) => (
        <div role="row" key={l}>
          <div role="rowheader">
            <button
              type="button"
              aria-label={`L${l}: all heads of layer ${l}`}
              title={`Change all heads of layer ${l}`}
              onClick={() => props.onToggleLayer(l)}
              {...roving(l, 0)}
            >
              L{l}
            </button>
          </div>
          {columns.map((k) => (
            <div role="gridcell" key={k}>
              <Switch
                layer={l}
                head={k}
                edit={edits.find((edit) => same(edit, { layer: l, head: k }))}
                tint={tint}
                chosen={l === chosen.layer && k === chosen.head}
                roving={roving(l, k + 1)}
                onToggle={props.onToggle}
                onShow={props.onShow}
              />
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}

function Switch(
  props: Omit<Events, "onToggleLayer"> & {
    layer: number;
    head: number;
    edit: Edit | undefined;
    tint: HeadTint | null;
    chosen: boolean;
    roving: object;
  },
) {
  const { layer, head, edit, tint } = props;
  const value = tint?.values[layer]?.[head] ?? null;
  const sign = edit ? signOf(edit) : value === null ? "" : short(value);
  const estimated = value !== null && tint?.estimated(layer, head);
  const amount =
    tint && value !== null ? `, ${tint.bar.label.toLowerCase()} ${format(value)}${estimated ? ", estimate" : ""}` : "";
  const name = `layer ${layer}, head ${head}${edit ? `: ${doesOf(edit)}` : ""}${amount}`;
  const at = tint && value !== null ? tint.place(value) : null;
  const style = tint && at !== null ? tinted(tint.bar.lut, at) : {};
  return (
    <button
      type="button"
      class={classes(props.chosen && "chosen", estimated && "estimate")}
      style={style}
      aria-pressed={Boolean(edit)}
      aria-label={sign ? `${sign}, ${name}` : capital(name)}
      title={capital(name)}
      onClick={(e) => (e.shiftKey ? props.onShow(layer, head) : props.onToggle(layer, head))}
      {...props.roving}
    >
      {sign}
    </button>
  );
}

// Returns as many digits as fit into a switch.
function short(value: number): string {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size === 0) return "0";
  if (size < 0.005) return ""; // the colour says as much
  return sign + (size >= 9.95 ? size.toFixed(0) : size >= 0.995 ? size.toFixed(1) : size.toFixed(2).slice(1));
}
