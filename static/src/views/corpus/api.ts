// Corpus runs as the server keeps them: POST /corpora and what belongs to it.
import type { CorpusComparison, CorpusExamples, CorpusRun, CorpusRuns } from "../../../../build/openapi";
import type { Report } from "../../../report/data";
import { getJson, problemFrom, Problem, send } from "../../app/api";
import type { Stack } from "../../app/state";
import { authorization } from "../../app/token";
import { pageOf } from "./pages";

export type Run = CorpusRun;
export type { Report };
export interface Compared {
  numbers: CorpusComparison;
  page: Document;
}

export const LINES = [
  "application/x-ndjson",
  "text/plain",
  "application/json",
  "text/csv",
  "text/tab-separated-values",
  "application/octet-stream",
] as const;
export type Lines = (typeof LINES)[number];

export const RUN_OPTIONS = [
  "name",
  "model",
  "stack",
  "max_tokens",
  "layers",
  "thresholds",
  "examples",
  "label_field",
  "effects_share",
] as const;
export type RunOption = (typeof RUN_OPTIONS)[number];
type RunOptions = Partial<Record<RunOption, string>>;

// Options of labelled texts. The server refuses them for heads that are not the encoder's.
const OF_ENCODER: readonly RunOption[] = ["label_field", "effects_share"];
export const isAllowed = (option: RunOption, stack: Stack): boolean =>
  stack === "encoder" || !OF_ENCODER.includes(option);

export const isActive = ({ state }: Run): boolean => state === "queued" || state === "running";

const path = (id: string, rest = ""): string => `corpora/${encodeURIComponent(id)}${rest}`;
export const reportAddress = (id: string, format: "html" | "json" | "npz"): string =>
  path(id, `/report?format=${format}`);

// threshold: 0 for the first run's main one.
export function comparisonAddress(ids: readonly string[], format: "html" | "json" | "csv", threshold: number): string {
  const others = ids.slice(1).map(encodeURIComponent).join(",");
  const at = threshold ? `&threshold=${threshold}` : "";
  return path(ids[0] ?? "", `/comparison?with=${others}${at}&format=${format}`);
}

// The page that the server writes, and the numbers in it.
export async function loadComparison(ids: readonly string[], threshold: number): Promise<Compared> {
  const [numbers, page] = await Promise.all([
    getJson<CorpusComparison>(comparisonAddress(ids, "json", threshold)),
    loadPage(comparisonAddress(ids, "html", threshold)),
  ]);
  return { numbers, page };
}

export const loadPage = async (address: string): Promise<Document> => pageOf(await (await fetchFile(address)).text());

export async function listRuns(): Promise<Run[]> {
  const runs: Run[] = [];
  for (let at: string | null = "corpora?limit=200"; at;) {
    const page: CorpusRuns = await getJson(at);
    runs.push(...page.corpora);
    at = page.next && page.next.slice(1); // relative: the server may be behind a path
  }
  return runs;
}

export const loadRun = (id: string): Promise<Run> => getJson(path(id));

export async function cancelRun(id: string): Promise<void> {
  await send(path(id, "/cancel"), { method: "POST" });
}

export async function deleteRun(id: string): Promise<void> {
  await send(path(id), { method: "DELETE" });
}

export async function loadReport(id: string): Promise<Report> {
  const report: Report = await getJson(reportAddress(id, "json"));
  report.thresholds = report.thresholds.map((tau) => Number(tau.toPrecision(6))); // single precision: 0.30000001
  return report;
}

// The texts of the run in which a figure of a head is highest.
export function loadExamples(
  id: string,
  of: { layer: number; head: number; by: string; limit: number },
  signal: AbortSignal,
): Promise<CorpusExamples> {
  const query = new URLSearchParams(Object.entries(of).map(([name, value]) => [name, String(value)]));
  return getJson(path(id, `/examples?${query}`), signal);
}

// Options left empty take the server's default. Not by fetch(), which does not report how much is sent.
export function startRun(
  file: Blob,
  lines: Lines,
  options: RunOptions,
  signal: AbortSignal,
  onprogress: (sent: number, total: number) => void,
): Promise<Run> {
  const query = new URLSearchParams(Object.entries(options).filter(([, value]) => value !== ""));
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `corpora?${query}`);
    request.setRequestHeader("Content-Type", lines);
    request.setRequestHeader("Accept", "application/json");
    for (const [name, value] of Object.entries(authorization())) request.setRequestHeader(name, value);
    request.upload.onprogress = (e) => onprogress(e.loaded, e.total);
    request.onload = () => {
      const { status, statusText, responseText } = request;
      if (status === 202) resolve(JSON.parse(responseText) as Run);
      else reject(problemFrom(status, statusText, responseText, request.getResponseHeader("Retry-After")));
    };
    request.onerror = () => reject(new Problem(0, "Not sent", "The connection closed before the file was sent."));
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

// Calls back at every change until the run has ended (onend gets true), the stream breaks or the returned function
// is called. Not by EventSource, which sends no token.
export function watchRun(id: string, onchange: (run: Run) => void, onend: (ended: boolean) => void): () => void {
  const controller = new AbortController();
  const { signal } = controller;
  const read = async (): Promise<boolean> => {
    const response = await send(path(id, "/events"), { headers: { Accept: "text/event-stream" }, signal });
    if (!response.body) return false;
    for await (const data of eventsOf(response.body)) {
      const run = JSON.parse(data) as Run;
      onchange(run);
      if (!isActive(run)) return true;
    }
    return false;
  };
  void read()
    .catch(() => false) // the next list reports the problem
    .then((ended) => {
      if (signal.aborted) return;
      controller.abort();
      onend(ended);
    });
  return () => controller.abort();
}

// The data of server-sent events: one line an event, as the service writes them.
async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trimStart();
  }
}

// A file of the server, for one whose token a link cannot carry.
export const fetchFile = async (address: string, signal: AbortSignal | null = null): Promise<Blob> =>
  (await send(address, { signal })).blob();

// The format of a file, by its name and its beginning: a line that reads as JSON with a text makes it NDJSON. The server
// detects packed files and CoNLL-U.
export function linesOf(beginning: string, name: string): Lines {
  if (/\.(gz|zst|conllu)$/i.test(name)) return "application/octet-stream";
  if (/\.csv$/i.test(name)) return "text/csv";
  if (/\.tsv$/i.test(name)) return "text/tab-separated-values";
  if (/^\s*\[\s*[{"]/.test(beginning) && /\.json$/i.test(name)) return "application/json";
  const line = beginning.split("\n").find((l) => l.trim() !== "") ?? "";
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "string" || (typeof value === "object" && value !== null && "text" in value)
      ? "application/x-ndjson"
      : "text/plain";
  } catch {
    return /\.(jsonl|ndjson)$/i.test(name) ? "application/x-ndjson" : "text/plain";
  }
}
