// Saving what is seen: PNG, SVG, CSV, npz, each with where it came from; and the request as curl or Python.
import { download } from "../app/api";
import type { HeadNumbers } from "../heads/head-map";
import { addSide, npyOfRows, npzOf, type Arrays } from "./npz";
import type { AnalyzeRequest } from "../app/requests";
import { withText } from "./png";
import { parseSafetensors } from "../app/safetensors";
import { CanvasSurface, SvgSurface, type Ink, type Picture } from "./surface";

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
  picture?: Picture;
  rows: () => (string | number)[][]; // the first is the header
  heads?: HeadNumbers; // a number a head, below the view's picture
}

export function inkOf(): Ink {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ink: read("--ink"),
    muted: read("--muted"),
    page: read("--surface"),
    line: read("--line"),
    accent: read("--accent"),
  };
}

export async function pngOf({ picture, provenance }: Exportable): Promise<Blob> {
  const surface = new CanvasSurface(picture!.width, picture!.height, 2);
  picture!.draw(surface, inkOf());
  const blob = await new Promise<Blob | null>((done) => surface.canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("The picture is too large for this browser.");
  const bytes = new Uint8Array(await blob.arrayBuffer());
  return new Blob([withText(bytes, "headscope", JSON.stringify(provenance))], { type: "image/png" });
}

export function svgOf({ picture, provenance }: Exportable): Blob {
  const surface = new SvgSurface(picture!.width, picture!.height);
  const metadata = document.createElementNS("http://www.w3.org/2000/svg", "metadata");
  metadata.textContent = JSON.stringify(provenance);
  surface.root.append(metadata);
  picture!.draw(surface, inkOf());
  return new Blob([new XMLSerializer().serializeToString(surface.root)], { type: "image/svg+xml" });
}

export function csvText(rows: (string | number)[][]): string {
  const cell = (value: string | number): string => {
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

// Readers of CSV take no comments, so a table says in a second file where it comes from.
export const csvOf = ({ rows }: Exportable): Blob => new Blob([csvText(rows())], { type: "text/csv;charset=utf-8" });
export const originOf = ({ provenance }: Exportable): Blob =>
  new Blob([`${JSON.stringify(provenance, null, 2)}\n`], { type: "application/json" });

// The service's own file, or one made here where there is more to put in: a second side, numbers of all heads.
export async function arraysOf({ provenance: { request, second }, heads }: Exportable): Promise<Blob> {
  if (!second && !heads) return download(request!, "npz");
  const arrays: Arrays = new Map();
  const sides = second
    ? ([
        ["first_", request!],
        ["second_", second],
      ] as const)
    : ([["", request!]] as const);
  for (const [side, asked] of sides) {
    const bytes = await (await download(asked, "safetensors")).arrayBuffer();
    addSide(arrays, side, parseSafetensors(new Uint8Array(bytes)));
  }
  if (heads) arrays.set(heads.name, npyOfRows(heads.values));
  return npzOf(arrays);
}

export const headRowsOf = ({ name, values }: HeadNumbers): (string | number)[][] => [
  ["layer", "head", name],
  ...values.flatMap((row, l) => row.map((value, k) => [l, k, value ?? ""])),
];

export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

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
