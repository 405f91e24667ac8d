// Talks to the server the page came from. Every address is relative, so any path prefix works.
import type { AnalyzeRequest, Model, Models, Problem as ProblemBody, Pull, Tokens } from "../../../build/openapi";
import { learnModels } from "./model-facts";
import { readableAnswer } from "./token-labels";
import { encodingOf, readAnswer, type Answer, type Encoding, type JsonAnswer, type Timing } from "./answer";
import { authorization, tellRefusal } from "./token";

export type { Model, Pull };

// problem+json (RFC 9457), or the same shape for what never reached the server.
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly pointer = "",
    readonly retryAfter = 0,
  ) {
    super(detail || title);
  }
}

export function problemFrom(status: number, title: string, text: string, retryAfter: string | null): Problem {
  let body: Partial<ProblemBody> = {};
  try {
    body = JSON.parse(text) as Partial<ProblemBody>;
  } catch {
    // not from headscope itself: a proxy, say
  }
  return new Problem(status, body.title ?? title, body.detail ?? "", body.pointer ?? "", Number(retryAfter ?? 0));
}

export const asProblem = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, "Unreadable answer", String(error));

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  return problemFrom(response.status, response.statusText, text, response.headers.get("Retry-After"));
}

export async function send(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: { ...init.headers, ...authorization() } });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(0, "No answer", "The server does not answer. Is it still running?");
  }
  if (response.status === 401) tellRefusal();
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function getJson<T>(path: string, signal: AbortSignal | null = null): Promise<T> {
  const response = await send(path, { headers: { Accept: "application/json" }, signal });
  return (await response.json()) as T;
}

// Posts a value as JSON; the answer may be of another format.
const postJson = (
  path: string,
  value: object,
  Accept = "application/json",
  signal: AbortSignal | null = null,
): Promise<Response> =>
  send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept },
    body: JSON.stringify(value),
    signal,
  });

export interface Progress {
  received: number;
  total: number;
} // bytes; total 0 while computing

export async function analyze(
  request: AnalyzeRequest,
  signal: AbortSignal,
  onprogress: (progress: Progress) => void,
): Promise<Answer> {
  const source = request.stack === "cross" ? sourceOf(request) : null;
  const response = await postJson("analyze", request, "application/x-safetensors", signal);
  const timing = timingOf(response.headers.get("Server-Timing") ?? "");
  performance.mark("answer-begins");
  const bytes = await collect(response, onprogress);
  performance.mark("answer-complete");
  await listed;
  const answer = readAnswer(bytes, timing);
  return source ? { ...answer, source: await source } : answer;
}

// The answer for cross heads names the columns' tokens only. Their other fields are requested once a text.
let lastSource: { body: string; encoding: Promise<Encoding> } | null = null;

function sourceOf(whole: AnalyzeRequest) {
  const { text, text_pair, prompt_name, model, max_tokens, split_special_tokens, source_language } = whole;
  const request = { text, text_pair, prompt_name, model, max_tokens, split_special_tokens, source_language };
  const body = JSON.stringify(request);
  if (lastSource?.body !== body) {
    const encoding = tokenize(request);
    encoding.catch(() => (lastSource = null)); // asked again
    lastSource = { body, encoding };
  }
  return lastSource.encoding;
}

async function tokenize(request: object): Promise<Encoding> {
  const answer = (await (await postJson("tokenize", request)).json()) as Tokens;
  await listed;
  return encodingOf(answer);
}

// As analyze(), for lists of tokens, which come as JSON.
export async function readJson(request: AnalyzeRequest, signal: AbortSignal): Promise<JsonAnswer> {
  const response = await postJson("analyze", request, "application/json", signal);
  const text = await response.text();
  await listed;
  const answer = JSON.parse(text) as JsonAnswer;
  return { ...readableAnswer(answer, answer.model), bytes: text.length };
}

const WHOLE_BYTES = 4 << 20; // so little is not worth its progress

// Reads the body into one array, without a second copy if its length is known beforehand.
async function collect(response: Response, onprogress: (progress: Progress) => void): Promise<Uint8Array> {
  const total = Number(response.headers.get("Content-Length") ?? 0);
  if (!response.body || total < WHOLE_BYTES || response.headers.has("Content-Encoding"))
    return new Uint8Array(await response.arrayBuffer());
  const bytes = new Uint8Array(total);
  const reader = response.body.getReader();
  let received = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes.set(value, received);
    received += value.length;
    onprogress({ received, total });
  }
  if (received !== total) throw new Problem(0, "Answer cut short", "The connection closed before the answer's end.");
  return bytes;
}

// 'queue;dur=0.1, forward;dur=41.2' -> { queue: 0.1, forward: 41.2 }
export function timingOf(header: string): Timing {
  const timing: Timing = {};
  for (const [, name, ms] of header.matchAll(/([\w-]+)\s*;[^,]*?dur=([\d.]+)/g)) timing[name ?? ""] = Number(ms);
  return timing;
}

// The same request in another format, for saving.
export async function download(
  request: AnalyzeRequest,
  format: "npz" | "safetensors" | "json" | "svg" | "pdf" | "png",
): Promise<Blob> {
  return (await postJson(`analyze?format=${format}`, request, "*/*")).blob();
}

// The list of models once was here, or failed to come: reading an answer needs what it says of the model.
let listed: Promise<unknown> = Promise.resolve();

export function models(): Promise<Model[]> {
  const list = listModels();
  listed = list.catch(() => {});
  return list;
}

async function listModels(): Promise<Model[]> {
  const { models } = await getJson<Models>("models");
  learnModels(models);
  return models;
}

// ---- models of a server that was started with --pull: fetched, reloaded and removed ----

export const isUnderWay = ({ state }: Pull): boolean => state === "downloading" || state === "loading";

// Null if the server does not change its models.
export async function lastPull(): Promise<Pull | null> {
  try {
    return await getJson<Pull>("pull");
  } catch (error) {
    if (error instanceof Problem && error.status === 501) return null;
    throw error;
  }
}

export const fetchModel = async (name: string): Promise<Pull> =>
  (await (await postJson("models", { name })).json()) as Pull;

export const cancelPull = (): Promise<unknown> => send("pull/cancel", { method: "POST" });
export const removeModel = (name: string): Promise<unknown> =>
  send(`models/${encodeURIComponent(name)}`, { method: "DELETE" });
