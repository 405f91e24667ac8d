// The menu that saves and shares what is on screen.
import { useState } from "preact/hooks";
import { download } from "../app/api";
import { frameOf } from "../app/embed";
import type { AnalyzeRequest } from "../app/requests";
import { isFile } from "../app/sources";
import { token } from "../app/token";
import { useApp } from "../ui/context";
import { useMenu } from "../ui/menu";
import type * as Exports from "./export";
import { save } from "./files";
import { offered, onOffer } from "./offer";

type Exportable = Exports.Exportable;
type Files = typeof Exports;
const files = (): Promise<Files> => import("./export"); // fetched with the first use: the first page needs none

interface Item {
  label: string;
  does: string;
  act: () => Promise<string>; // returns what was done
}

const saved = (label: string, does: string, file: string, make: (files: Files) => Blob | Promise<Blob>): Item => ({
  label,
  does,
  act: async () => {
    save(await make(await files()), file);
    return `Saved ${file}`;
  },
});

const copied = (label: string, does: string, what: string, text: (files: Files) => string): Item => ({
  label,
  does,
  act: async () => {
    await navigator.clipboard.writeText(text(await files()));
    return `Copied ${what}`;
  },
});

// The arrays and requests of what is on screen.
function requestItems(of: Exportable): Item[] {
  const { request, second } = of.provenance;
  if (!request) return [];
  const requests = second ? [request, second] : [request];
  const address = new URL("analyze", location.href.split("#")[0]).href;
  const withToken = token() !== "";
  return [
    saved("npz", "arrays for NumPy", `${of.name}.npz`, ({ arraysOf }) => arraysOf(of)),
    copied("curl", "copy the request", "the curl command", ({ curlOf }) => curlOf(requests, address, withToken)),
    copied("Python", "copy the request", "the Python program", ({ pythonOf }) =>
      pythonOf(requests, address, withToken),
    ),
  ];
}

function pictureItems(of: Exportable): Item[] {
  return [
    saved("PNG", "the view, 2 ×", `${of.name}.png`, ({ pngOf }) => pngOf(of)),
    saved("SVG", "the view", `${of.name}.svg`, ({ svgOf }) => svgOf(of)),
  ];
}

const tableItems = (of: Exportable): Item[] =>
  of.rows ? [saved("CSV", "table", `${of.name}.csv`, ({ csvOf }) => csvOf(of))] : [];

// The picture and the table of another part of the view.
const itemsAlso = (of: Exportable, what: string): Item[] =>
  [...pictureItems(of), ...tableItems(of)].map((item) => ({ ...item, label: `${item.label} of ${what}`, does: "" }));

function fileItems(of: Exportable): Item[] {
  const { name, figure, heads, also } = of;
  const drawn = (format: "pdf" | "svg" | "png"): Item =>
    saved(`Figure ${format.toUpperCase()}`, "to print, 170 mm", `${name}.figure.${format}`, () =>
      download(figure as AnalyzeRequest, format),
    );
  return [
    ...pictureItems(of),
    ...(figure ? [drawn("pdf"), drawn("svg"), drawn("png")] : []),
    ...tableItems(of),
    ...(of.rows ? [saved("Spreadsheet", "CSV without formulas", `${name}.csv`, ({ csvOf }) => csvOf(of, true))] : []),
    ...(heads
      ? [
          saved("CSV of heads", "table of all heads", `${name}.heads.csv`, ({ csvOf, headRowsOf }) =>
            csvOf({ ...of, rows: () => headRowsOf(heads) }),
          ),
        ]
      : []),
    saved("JSON", `model and request of the ${of.rows ? "table" : "view"}`, `${name}.json`, ({ originOf }) =>
      originOf(of),
    ),
    ...requestItems(of),
    ...(also ? itemsAlso(also, also.what) : []),
  ];
}

// Leaves out the forms that the server makes: it has no arrays of an opened file.
function ownFiles(of: Exportable | null, model: string): Exportable | null {
  if (!of || !isFile(model)) return of;
  const { tool, model: name, model_sha256, page } = of.provenance;
  return {
    ...of,
    figure: false,
    provenance: { tool, ...(name && { model: name }), ...(model_sha256 && { model_sha256 }), page },
  };
}

export function ExportMenu() {
  const app = useApp();
  const { menu, onKeyDown } = useMenu();
  const [seen, setSeen] = useState<Exportable | null>(null);
  const [note, setNote] = useState("");
  const fill = (): void => {
    if (menu.current?.open) setSeen(ownFiles(offered(), app.state.model));
  };
  onOffer(fill); // an open menu follows its view
  const onToggle = (): void => {
    setNote("");
    fill();
  };
  const address = (): string => app.address.href();
  const items = [
    ...(seen ? fileItems(seen) : []),
    copied("Link", "copy this view’s address", "the link", address),
    copied("Frame", "copy for a notebook or page", "the frame", () => frameOf(address(), seen?.title ?? "headscope")),
  ];
  const run = async (act: Item["act"]): Promise<void> => {
    setNote("…");
    setNote(await act().catch((error: unknown) => (error instanceof Error ? error.message : String(error))));
  };
  return (
    <details class="menu" ref={menu} onToggle={onToggle} onKeyDown={onKeyDown}>
      <summary>Export</summary>
      <div class="sheet">
        <div class="items" role="group" aria-label="Save and share">
          {items.map(({ label, does, act }) => (
            <button key={label} type="button" onClick={() => void run(act)}>
              <span>{label}</span>
              <small>{does}</small>
            </button>
          ))}
        </div>
        <p role="status">{note || (seen ? "" : "There is nothing to save yet.")}</p>
      </div>
    </details>
  );
}
