// Numbers with a bar each, before and after a change.
import type { ComponentChildren } from "preact";
import { Button } from "./controls";

interface Bar {
  size: number; // relative to the other bars
  written: ComponentChildren;
}

interface BarRow {
  key: string | number;
  name: string;
  marked?: boolean;
  before: Bar;
  after: Bar | null; // null where nothing is changed
}

export function BarTable(props: { caption: string; head: string; what: string; rows: readonly BarRow[] }) {
  const { rows } = props;
  const top = Math.max(1e-9, ...rows.flatMap(({ before, after }) => [before.size, after?.size ?? 0]));
  const changed = rows.some(({ after }) => after);
  const bar = ({ size }: Bar, side: string) => <i class={side} style={{ width: `${(100 * size) / top}%` }} />;
  return (
    <table class="bar-table">
      <caption class="hidden">{props.caption}</caption>
      <thead>
        <tr>
          <th scope="col">{props.head}</th>
          <th scope="col" class="bars">
            <span class="hidden">As bars</span>
          </th>
          {(changed ? ["Before", "After"] : [props.what]).map((side) => (
            <th key={side} scope="col" class="number">
              {side}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, name, marked, before, after }) => (
          <tr key={key} class={marked ? "marked" : ""}>
            <th scope="row">{name}</th>
            <td class="bars" aria-hidden="true">
              {bar(before, "before")}
              {after && bar(after, "after")}
            </td>
            <td class="number">{before.written}</td>
            {after && <td class="number">{after.written}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// A name to click, its value, and a bar of its size relative to the largest.
export const Barred = (props: {
  name: string;
  value: string;
  fraction: number;
  pressed?: boolean;
  onClick: () => void;
}) => (
  <Button class="barred" aria-pressed={props.pressed} onClick={props.onClick}>
    <span>{props.name}</span>
    <b>{props.value}</b>
    <i style={{ width: `${100 * props.fraction}%` }} />
  </Button>
);
