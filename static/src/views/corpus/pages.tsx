// Parts of the pages that the server writes for runs: figures and tables of reports and comparisons. The server draws
// them; the viewer shows them.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { inert } from "../../../report/inert";
import { soughtPlace } from "../../heads/figures";
import { h } from "../../app/dom";
import { makeSortable } from "../../ui/sort-table";
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

// True if a search means a row of heads by its first cells, a name such as "7·5" and a label. It names layer and head, or
// begins one of the cells.
export function isSoughtRow(cells: readonly string[], sought: string): boolean {
  const words = sought.trim().toLowerCase();
  const place = soughtPlace(words);
  const [name = ""] = cells;
  if (place) return place.h === null ? name.startsWith(`${place.l}·`) : name === `${place.l}·${place.h}`;
  return cells.some((cell) => cell.toLowerCase().startsWith(words));
}

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
