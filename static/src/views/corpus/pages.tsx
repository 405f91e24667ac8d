// Parts of the pages that the server writes for runs: figures and tables of reports and comparisons. The server draws
// them; the viewer shows them.
import { useLayoutEffect, useRef } from "preact/hooks";
import { inert } from "../../../report/inert";
import { h } from "../../ui/dom";
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

interface Props {
  page: Document;
  select: string;
  onOpen: OpenHead;
  sought?: string; // the beginning of a cell of the rows that are shown
}

export function Part(props: Props) {
  const { page, select, onOpen, sought = "" } = props;
  const place = useRef<HTMLDivElement>(null);
  const open = useRef(onOpen);
  open.current = onOpen;
  useLayoutEffect(() => {
    if (!place.current) return;
    place.current.replaceChildren(partsOf(page, select));
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
    const words = sought.trim().toLowerCase();
    for (const row of place.current?.querySelectorAll<HTMLTableRowElement>("tbody tr") ?? [])
      row.hidden = ![...row.cells].some((cell) => cell.textContent.toLowerCase().startsWith(words));
  }, [page, select, sought]);
  return <div class="server-part" ref={place} />;
}

// The same of a report that may be on its way.
export const PagePart = ({ page, ...rest }: Omit<Props, "page"> & { page: Document | null }) =>
  page ? <Part page={page} {...rest} /> : <StatusLine>Reading the report…</StatusLine>;
