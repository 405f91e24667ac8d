// The heads and the tokens that changed most, largest first.
import type { ComponentChildren } from "preact";
import type { Tint } from "../../heads/tint";
import type { Axis } from "../../maps/analysis";
import { format } from "../../maps/scale";
import { same, type Edit } from "../../passes/interventions";
import { Barred } from "../../ui/bars";
import { Button } from "../../ui/controls";

const RANKED = 8;

export function RankedHeads(props: {
  tint: Tint;
  title: string;
  edits: readonly Edit[];
  onOpen: (layer: number, head: number) => void;
  onToggle: (layer: number, head: number) => void;
}) {
  const { tint, edits } = props;
  const ranked = tint.values
    .flatMap((row, l) => row.flatMap((value, k) => (value ? [{ l, k, value, size: Math.abs(value) }] : [])))
    .sort((p, q) => q.size - p.size || p.l - q.l || p.k - q.k)
    .slice(0, RANKED);
  const top = ranked[0]?.size ?? 1;
  return (
    <Card heading={`Heads by ${tint.bar.label.toLowerCase()}`} note={props.title}>
      {!ranked.length && <p>None. A change in the last layer changes no map but its own.</p>}
      <ol>
        {ranked.map(({ l, k, value, size }) => {
          const changed = edits.some((edit) => same(edit, { layer: l, head: k }));
          return (
            <li key={`${l} ${k}`}>
              <Barred
                name={`Layer ${l} head ${k}`}
                value={format(value)}
                fraction={size / top}
                onClick={() => props.onOpen(l, k)}
              />
              <Button
                class="flip"
                aria-pressed={changed}
                aria-label={`change layer ${l} head ${k}`}
                title="Change the head"
                onClick={() => props.onToggle(l, k)}
              >
                <span aria-hidden="true">{changed ? "↺" : "×"}</span>
              </Button>
            </li>
          );
        })}
      </ol>
    </Card>
  );
}

// `values`: one an entry of the axis.
export function RankedTokens(props: {
  axis: Axis;
  values: readonly number[];
  layer: number;
  onChoose: (entry: number) => void;
}) {
  const { axis, values, layer } = props;
  const ranked = values
    .map((value, t) => ({ value, t }))
    .filter(({ value }) => value > 0)
    .sort((a, b) => b.value - a.value)
    .slice(0, RANKED);
  const top = ranked[0]?.value ?? 1;
  return (
    <Card heading="Tokens that changed most" note={`‖Δh‖ / ‖h‖ of the token’s state after layer ${layer}.`}>
      <ol>
        {ranked.map(({ value, t }) => (
          <li key={t}>
            <Barred
              name={`${axis.labels[t]} ${axis.positions[t]}`}
              value={format(value)}
              fraction={value / top}
              onClick={() => props.onChoose(t)}
            />
          </li>
        ))}
      </ol>
    </Card>
  );
}

const Card = (props: { heading: string; note: string; children: ComponentChildren }) => (
  <section class="card" aria-label={props.heading}>
    <h2>{props.heading}</h2>
    <p class="muted">{props.note}</p>
    {props.children}
  </section>
);
