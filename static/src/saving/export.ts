// Saving what is seen: PNG, SVG, CSV, npz, each with where it came from; figures to print; and the request as curl or
// Python.
import { download } from "../app/api";
import type { HeadNumbers } from "../heads/head-map";
import type { Arrays } from "./npz";
import type { AnalyzeRequest } from "../app/requests";
import { withText } from "./png";
import { parseSafetensors } from "../app/safetensors";
import { csvBlob, pngBlob, svgBlob } from "./files";
import { snapshotOf } from "./snapshot";

interface Provenance {
  tool: string;
  model?: string;
  model_sha256?: string;
  request?: AnalyzeRequest; // none: not from one text
  second?: AnalyzeRequest; // of a comparison
  runs?: unknown[]; // the reports' provenance
  page: string;
}

// The forms in which a view can be saved.
export interface Exportable {
  name: string; // of the file, without its ending
  title: string; // one line, under a picture
  provenance: Provenance;
  part?: string; // selects what of the view is in its picture; else all of it
  figure?: AnalyzeRequest | false; // of the same as a figure to print, which the server draws
  rows: (() => (string | number)[][]) | null; // the first is the header; null: there is no table
  heads?: HeadNumbers | null; // a number a head, below the view's own
  also?: (Exportable & { what: string }) | null; // another part of the view: a picture and a table, named "PNG of …"
}

// Draws the view on screen, or the part of it that makes the picture.
function drawingOf({ part, title, provenance }: Exportable): SVGSVGElement {
  const view = document.querySelector("#stage .view")!;
  return snapshotOf((part && view.querySelector(part)) || view, title, provenance);
}

export async function pngOf(of: Exportable): Promise<Blob> {
  const bytes = new Uint8Array(await (await pngBlob(drawingOf(of))).arrayBuffer());
  return new Blob([withText(bytes, "headscope", JSON.stringify(of.provenance))], { type: "image/png" });
}

export const svgOf = (of: Exportable): Blob => svgBlob(drawingOf(of));

// Readers of CSV take no comments, so a table says in a second file where it comes from.
export const csvOf = ({ rows }: Exportable, safe = false): Blob => csvBlob(rows?.() ?? [], safe);
export const originOf = ({ provenance }: Exportable): Blob =>
  new Blob([`${JSON.stringify(provenance, null, 2)}\n`], { type: "application/json" });

// The service's own file, or one made here where there is more to put in: a second side, numbers of all heads.
export async function arraysOf({ provenance: { request, second }, heads }: Exportable): Promise<Blob> {
  if (!second && !heads) return download(request!, "npz");
  const { addSide, npyOfRows, npzOf } = await import("./npz");
  const arrays: Arrays = new Map();
  const sides = second
    ? ([
        ["first_", request!],
        ["second_", second],
      ] as const)
    : ([["", request!]] as const);
  for (const [side, requested] of sides) {
    const bytes = await (await download(requested, "safetensors")).arrayBuffer();
    addSide(arrays, side, parseSafetensors(new Uint8Array(bytes)));
  }
  if (heads) arrays.set(heads.name, npyOfRows(heads.values));
  return npzOf(arrays);
}

export const headRowsOf = ({ name, values }: HeadNumbers): (string | number)[][] => [
  ["layer", "head", name],
  ...values.flatMap((row, l) => row.map((value, k) => [l, k, value ?? ""])),
];

const quoteShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

// withToken: the token itself is never copied, but read from the environment.
export const curlOf = (requests: readonly AnalyzeRequest[], address: string, withToken = false): string =>
  requests
    .map(
      (request, n) =>
        `curl -sS ${quoteShell(`${address}?format=npz`)} -H 'Content-Type: application/json' \\\n` +
        (withToken ? `  -H "Authorization: Bearer $HEADSCOPE_TOKEN" \\\n` : "") +
        `  -d ${quoteShell(JSON.stringify(request))} -o headscope${requests.length > 1 ? `-${n + 1}` : ""}.npz`,
    )
    .join("\n");

// A JSON string holds only escapes that Python's json knows too.
export const pythonOf = (requests: readonly AnalyzeRequest[], address: string, withToken = false): string =>
  [
    withToken ? "import io, json, os, urllib.request" : "import io, json, urllib.request",
    "import numpy as np",
    "",
    "def ask(request):",
    `    call = urllib.request.Request(${JSON.stringify(`${address}?format=npz`)}, json.dumps(request).encode(),`,
    '                                  {"Content-Type": "application/json"})',
    ...(withToken ? ['    call.add_header("Authorization", "Bearer " + os.environ["HEADSCOPE_TOKEN"])'] : []),
    "    return np.load(io.BytesIO(urllib.request.urlopen(call).read()))",
    "",
    ...requests.flatMap((request, n) => {
      const name = requests.length > 1 ? ["first", "second"][n]! : "heads";
      return [
        `${name} = ask(json.loads(r'''${JSON.stringify(request).replaceAll("'", "\\u0027")}'''))`,
        `print({name: ${name}[name].shape for name in ${name}.files})`,
      ];
    }),
    "",
  ].join("\n");
