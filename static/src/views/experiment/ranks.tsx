// The heads and the tokens that changed most, largest first.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Axis } from "../../maps/analysis";
import { format } from "../../maps/scale";
import { same, type Edit } from "../../passes/interventions";
import type { HeadTint } from "../../passes/tones";
import { Barred } from "../../ui/bars";
import { Button } from "../../ui/controls";

const RANKED = 8;
const ESTIMATED = " ≈ is an estimate by the gradient.";

export function RankedHeads(props: {
  tint: HeadTint;
  title: string;
  none: string; // in place of the list, if no head has a value
  edits: readonly Edit[];
  busy: boolean; // the values are of the change before
  onOpen: (layer: number, head: number) => void;
  onToggle: (layer: number, head: number) => void;
  onCompute: (layer: number, head: number) => void; // the exact effect in place of an estimate
}) {
  const { tint, edits, busy } = props;
  const ranked = tint.values
    .flatMap((row, l) => row.flatMap((value, k) => (value ? [{ l, k, value, size: Math.abs(value) }] : [])))
    .sort((p, q) => q.size - p.size || p.l - q.l || p.k - q.k)
    .slice(0, RANKED);
  const top = ranked[0]?.size ?? 1;
  const guessed = ranked.some(({ l, k }) => tint.estimated(l, k));
  const known = tint.values.flat().every((value) => value !== null);
  // The keyboard stays at its head: an exact effect moves the row and takes away the button that was pressed.
  const list = useRef<HTMLOListElement>(null);
  const active = document.activeElement;
  const row = list.current?.contains(active) && active?.closest("li")?.dataset.head;
  useLayoutEffect(() => {
    if (!row || list.current?.contains(document.activeElement)) return;
    const next = list.current?.querySelector(`[data-head="${row}"] button`) ?? list.current?.querySelector("button");
    if (next instanceof HTMLElement) next.focus();
  });
  return (
    <Card heading={`Heads by ${tint.bar.label.toLowerCase()}`} note={props.title + (guessed ? ESTIMATED : "")}>
      {!ranked.length && <p>{known && !busy ? props.none : "Not known yet."}</p>}
      <ol ref={list}>
        {ranked.map(({ l, k, value, size }) => {
          const changed = edits.some((edit) => same(edit, { layer: l, head: k }));
          return (
            <li key={`${l} ${k}`} data-head={`${l}.${k}`}>
              <Barred
                name={`Layer ${l} head ${k}`}
                value={`${tint.estimated(l, k) ? "≈ " : ""}${format(value)}`}
                fraction={size / top}
                onClick={() => props.onOpen(l, k)}
              />
              {tint.estimated(l, k) && (
                <Button
                  class="flip"
                  aria-label={`compute layer ${l} head ${k} exactly`}
                  title="Compute the exact effect"
                  onClick={() => props.onCompute(l, k)}
                >
                  <span aria-hidden="true">=</span>
                </Button>
              )}
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
