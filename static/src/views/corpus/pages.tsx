// Parts of the pages that the server writes for runs: figures and tables of reports and comparisons. The server draws
// them; the viewer shows them.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { inert } from "../../../report/inert";
import { soughtPlace } from "../../heads/figures";
import { h } from "../../app/dom";
import { StatusLine } from "../../ui/status";

export type OpenHead = (layer: number, head: number) => void;

// Parses a page, without its script, data and styles, as a document that runs and loads nothing. Browsers report
// style attributes as violations of the viewer's policy, even in such a document.
export function pageOf(html: string): Document {
  const body = html.slice(html.indexOf('<div id="report">'), html.lastIndexOf("</main>"));
  return new DOMParser().parseFromString(body.replaceAll(/ style="[^"]*"/g, ""), "text/html");
}

// The parts of the page that a selector names, one after the other.
function partsOf(page: Document, selector: string): DocumentFragment {
  const parts = [...page.querySelectorAll(selector)];
  return inert(parts.map((part) => part.outerHTML).join(""));
}

// A head that a table names opens by a click.
function openHeads(place: HTMLElement, onOpen: OpenHead): void {
  for (const name of place.querySelectorAll<HTMLElement>("[data-head]")) {
    const [layer, head] = (name.dataset.head ?? "").split(".").map(Number);
    if (layer === undefined || head === undefined) continue;
    const onclick = (): void => onOpen(layer, head);
    name.replaceWith(h("button", { type: "button", class: "link", onclick }, name.textContent));
  }
}

// The summaries of what the reader has opened, such as a figure's table of heads: the same of the next page is open, too.
const opened = new Set<string>();

function keepOpen(place: HTMLElement): void {
  for (const details of place.querySelectorAll("details")) {
    const summary = details.querySelector("summary")?.textContent ?? "";
    details.open = opened.has(summary);
    details.addEventListener("toggle", () => opened[details.open ? "add" : "delete"](summary));
  }
}

/* ---- tables: a click on a column's head orders the rows by it ---- */

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
function makeSortable(root: ParentNode): void {
  for (const table of root.querySelectorAll("table")) {
    table.classList.add("sortable");
    for (const head of table.tHead?.rows[0]?.cells ?? [])
      head.replaceChildren(
        h("button", { type: "button", onclick: () => sort(table, head.cellIndex) }, head.textContent),
      );
  }
}

/* ---- search ---- */

// True if a search means a row of heads by its first cells, a name such as "7·5" and a label. It names layer and head, or
// begins one of the cells.
export function isSoughtRow(cells: readonly string[], sought: string): boolean {
  const words = sought.trim().toLowerCase();
  const place = soughtPlace(words);
  const [name = ""] = cells;
  if (place) return place.h === null ? name.startsWith(`${place.l}·`) : name === `${place.l}·${place.h}`;
  return cells.some((cell) => cell.toLowerCase().startsWith(words));
}

/* ---- on the page ---- */

interface Props {
  page: Document;
  select: string;
  onOpen: OpenHead;
  sought?: string; // the heads whose rows are shown
}

export function Part(props: Props) {
  const { page, select, onOpen, sought = "" } = props;
  const place = useRef<HTMLDivElement>(null);
  const open = useRef(onOpen);
  const [none, setNone] = useState(false); // no row is left
  open.current = onOpen;
  useLayoutEffect(() => {
    if (!place.current) return;
    place.current.replaceChildren(partsOf(page, select));
    keepOpen(place.current);
    makeSortable(place.current);
    openHeads(place.current, (layer, head) => open.current(layer, head));
    // Keys can scroll a table that is wider than the page.
    for (const wide of place.current.querySelectorAll<HTMLElement>(".wide")) {
      wide.tabIndex = 0;
      wide.role = "group";
      wide.ariaLabel = "Table";
    }
  }, [page, select]);
  useLayoutEffect(() => {
    const rows = [...(place.current?.querySelectorAll<HTMLTableRowElement>("tbody tr") ?? [])];
    for (const row of rows)
      row.hidden = !isSoughtRow(
        [...row.cells].slice(0, 2).map((cell) => cell.textContent.trim()),
        sought,
      );
    setNone(rows.length > 0 && rows.every((row) => row.hidden));
  }, [page, select, sought]);
  return (
    <>
      <div class="server-part" ref={place} />
      {none && <StatusLine>No head has this place or label.</StatusLine>}
    </>
  );
}

// The same of a report that may be on its way.
export const PagePart = ({ page, ...rest }: Omit<Props, "page"> & { page: Document | null }) =>
  page ? <Part page={page} {...rest} /> : <StatusLine>Reading the report…</StatusLine>;
