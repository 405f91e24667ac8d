// Corpus runs as the server keeps them: POST /corpora and what belongs to it.
import type { CorpusRun, CorpusRuns } from "../../build/openapi";
import type { Report } from "../report/data";
import { problemFrom, Problem, send } from "./api";

export type Run = CorpusRun;
export type { Report };

export const LINES = ["application/x-ndjson", "text/plain"] as const;
export type Lines = (typeof LINES)[number];

export const RUN_OPTIONS = ["name", "model", "max_tokens", "layers", "thresholds"] as const;
export type RunOption = (typeof RUN_OPTIONS)[number];
export type RunOptions = Partial<Record<RunOption, string>>;

export const isActive = ({ state }: Run): boolean => state === "queued" || state === "running";

const path = (id: string, rest = ""): string => `corpora/${encodeURIComponent(id)}${rest}`;
export const reportAddress = (id: string, format: "html" | "json" | "npz"): string =>
  path(id, `/report?format=${format}`);

export async function listRuns(): Promise<Run[]> {
  const response = await send("corpora", { headers: { Accept: "application/json" } });
  return ((await response.json()) as CorpusRuns).corpora;
}

export async function cancelRun(id: string): Promise<void> {
  await send(path(id, "/cancel"), { method: "POST" });
}

export async function deleteRun(id: string): Promise<void> {
  await send(path(id), { method: "DELETE" });
}

export async function loadReport(id: string): Promise<Report> {
  const response = await send(reportAddress(id, "json"), { headers: { Accept: "application/json" } });
  const report = (await response.json()) as Report;
  report.thresholds = report.thresholds.map((tau) => Number(tau.toPrecision(6))); // single precision: 0.30000001
  return report;
}

// Options left empty take the server's default. Not by fetch(), which does not tell how much is sent.
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
    request.upload.onprogress = (e) => onprogress(e.loaded, e.total);
    request.onload = () => {
      const { status, statusText, responseText } = request;
      if (status === 202) resolve(JSON.parse(responseText) as Run);
      else reject(problemFrom(status, statusText, responseText, request.getResponseHeader("Retry-After")));
    };
    request.onerror = () => reject(new Problem(0, "Not sent", "The connection closed before the file was sent."));
    request.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

// Calls back at every change until the run has ended or the returned function is called.
export function watchRun(id: string, onchange: (run: Run) => void, onend: () => void): () => void {
  const source = new EventSource(path(id, "/events"));
  const end = (): void => {
    source.close();
    onend();
  };
  source.onmessage = (e: MessageEvent<string>) => {
    const run = JSON.parse(e.data) as Run;
    onchange(run);
    if (!isActive(run)) end();
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) end(); // else the browser tries again by itself
  };
  return () => source.close();
}

// What a file's lines are, told from its beginning: a line that reads as JSON with a text makes it NDJSON.
export function linesOf(beginning: string, name: string): Lines {
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
