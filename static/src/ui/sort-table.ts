// Sorts tables that the server has written: a click on a column's head orders the rows by it.
import { h } from "../app/dom";

const NUMBER = /^[+−-]?\d[\d,]*(\.\d+)?(?=$|\s|%)/; // "1,204", "12.3 %", "−0.5 pp", but not "7·5"

function numberOf(cell: string): number | null {
  const [written] = NUMBER.exec(cell) ?? [];
  return written === undefined ? null : Number(written.replaceAll(",", "").replace("−", "-"));
}

// True of a column's head that names the difference of two runs.
export const isDifference = (head: string): boolean => / − (first|second)$/.test(head);

// Returns the cells' indices in order: numbers, then words. `bySize`: numbers without their signs, as of differences.
export function orderOf(cells: readonly string[], down: boolean, bySize = false): number[] {
  const numbers = cells.map((cell) => {
    const value = numberOf(cell);
    return value !== null && bySize ? Math.abs(value) : value;
  });
  const sign = down ? -1 : 1;
  const compare = (a: number, b: number): number => {
    const [x, y] = [numbers[a] ?? null, numbers[b] ?? null];
    if (x !== null && y !== null) return sign * (x - y);
    if (x !== null || y !== null) return x === null ? 1 : -1;
    return sign * (cells[a] ?? "").localeCompare(cells[b] ?? "", "en", { numeric: true });
  };
  return cells.map((_, at) => at).sort((a, b) => compare(a, b) || a - b);
}

function sort(table: HTMLTableElement, column: number): void {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  const rows = [...(table.tBodies[0]?.rows ?? [])];
  const cells = rows.map((row) => row.cells[column]?.textContent.trim() ?? "");
  const sorted = heads[column]?.getAttribute("aria-sort");
  // Numbers begin with the largest; the first column names the rows.
  const down = sorted ? sorted === "ascending" : column > 0 && cells.some((cell) => numberOf(cell) !== null);
  const bySize = isDifference(heads[column]?.textContent.trim() ?? "");
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column]?.setAttribute("aria-sort", down ? "descending" : "ascending");
  table.tBodies[0]?.append(...orderOf(cells, down, bySize).flatMap((at) => rows[at] ?? []));
}

// Makes buttons of the column heads of all tables below `root`.
export function makeSortable(root: ParentNode): void {
  for (const table of root.querySelectorAll("table")) {
    table.classList.add("sortable");
    for (const head of table.tHead?.rows[0]?.cells ?? [])
      head.replaceChildren(
        h("button", { type: "button", onclick: () => sort(table, head.cellIndex) }, head.textContent),
      );
  }
}
