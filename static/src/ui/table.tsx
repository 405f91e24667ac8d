// Parts of tables.
import type { ComponentChildren } from "preact";

// The names of the columns.
export const Columns = ({ of, number }: { of: readonly string[]; number?: (column: number) => boolean }) => (
  <thead>
    <tr>
      {of.map((name, n) => (
        <th key={n} scope="col" class={number?.(n) ? "number" : undefined}>
          {name}
        </th>
      ))}
    </tr>
  </thead>
);

// A table of numbers; the first cell of a row is its heading.
export function NumberTable(props: {
  caption: string;
  columns: readonly string[];
  rows: readonly (readonly ComponentChildren[])[];
}) {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={props.caption}>
      <table>
        <caption>{props.caption}</caption>
        <Columns of={props.columns} />
        <tbody>
          {props.rows.map(([name, ...cells], row) => (
            <tr key={row}>
              <th scope="row">{name}</th>
              {cells.map((cell, n) => (
                <td key={n} class="number">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
