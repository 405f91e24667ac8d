// A table whose column heads sort it. An order is a column's key, with a leading minus for descending.
import type { ComponentChildren } from "preact";
import { Button } from "./controls";

export interface Column<Row> {
  key: string;
  name: string;
  title?: string;
  words?: boolean; // text sorts from A to Z at first, numbers from the largest down
  cell(this: void, row: Row): ComponentChildren;
  weak?(this: void, row: Row): boolean; // says little: shown in a muted colour
}

export const columnOf = (order: string): string => order.replace(/^-/, "");
export const signOf = (order: string): 1 | -1 => (order.startsWith("-") ? -1 : 1);

// Equal infinities differ by 0, not by NaN.
export const difference = (a: number, b: number): number => (a === b ? 0 : a - b);

// The order after a click on a column's head.
function nextOrder(order: string, key: string, words = false): string {
  const [first, second] = words ? [key, `-${key}`] : [`-${key}`, key];
  return order === first ? second : first;
}

export function ColumnHead(props: {
  column: { key: string; name: string; title?: string; words?: boolean };
  order: string;
  class?: string;
  onSort: (order: string) => void;
}) {
  const { column, order } = props;
  const sorted = columnOf(order) === column.key ? (signOf(order) < 0 ? "descending" : "ascending") : undefined;
  const sort = (): void => props.onSort(nextOrder(order, column.key, column.words));
  return (
    <th scope="col" title={column.title} aria-sort={sorted} class={props.class}>
      <Button onClick={sort}>{column.name}</Button>
    </th>
  );
}

// The first column names the row.
export function Sortable<Row>(props: {
  label: string;
  caption: ComponentChildren;
  columns: readonly Column<Row>[];
  rows: readonly Row[]; // in order
  order: string;
  onSort: (order: string) => void;
  keyOf: (row: Row) => string;
}) {
  const [first, ...others] = props.columns;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table class="sortable">
        <caption>{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <ColumnHead key={column.key} column={column} order={props.order} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)}>
              <th scope="row">{first?.cell(row)}</th>
              {others.map((column) => (
                <td key={column.key} class={column.weak?.(row) ? "muted" : undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
