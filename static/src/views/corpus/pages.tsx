// Parts of the pages that the server writes for runs: figures and tables of reports and comparisons. The server draws
// them; the viewer shows them.
import { useLayoutEffect, useRef } from "preact/hooks";
import { inert } from "../../../report/inert";

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

export function Part({ page, select }: { page: Document; select: string }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    place.current?.replaceChildren(partsOf(page, select));
    // Keys can scroll a table that is wider than the page.
    for (const wide of place.current?.querySelectorAll<HTMLElement>(".wide") ?? []) {
      wide.tabIndex = 0;
      wide.role = "group";
      wide.ariaLabel = "Table";
    }
  }, [page, select]);
  return <div class="server-part" ref={place} />;
}
