// The names of a table's columns.
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
