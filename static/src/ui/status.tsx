// Stands in a view's place while its answer is on the way, or when it failed or was cancelled.
import type { ComponentChildren, VNode } from "preact";
import type { JsonAnswer } from "../app/answer";
import type { Problem } from "../app/api";
import type { App } from "../app/app";
import type { Cache, Entry } from "../app/cache";
import { canRetry, fieldOf, inWords } from "../app/problems";

const PATIENCE_MS = 150; // quicker answers show no progress

export const statusOf = (app: App, entry: Entry): VNode | null => statusIn(app, app.cache, entry);
export const jsonStatusOf = (app: App, entry: Entry<JsonAnswer>): VNode | null => statusIn(app, app.jsonCache, entry);

function statusIn<A extends { bytes: number }>(app: App, source: Cache<A>, entry: Entry<A>): VNode | null {
  const again = (
    <button type="button" class="primary" onClick={() => source.retry(entry)}>
      Try again
    </button>
  );
  if (entry.status === "loading") return progressOf(app, entry, () => source.cancel(entry));
  if (entry.status === "cancelled") return <Notice title="">Cancelled. {again}</Notice>;
  return entry.problem && problemNotice(entry.problem, again);
}

export function Notice(props: { title: string; children: ComponentChildren }) {
  return (
    <div class="notice" role="status">
      {props.title && <h2>{props.title}</h2>}
      {props.children}
    </div>
  );
}

export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);
export const waitNote = ({ retryAfter }: Problem): string =>
  retryAfter ? `The server asks to wait ${retryAfter} s.` : "";

// Null for a missing token: its own form says so.
export function problemNotice(problem: Problem, again: ComponentChildren): VNode | null {
  const { status, title, pointer } = problem;
  if (status === 401) return null;
  const hint = waitNote(problem);
  return (
    <div class="notice problem" role="alert">
      <h2>{canRetry(status) ? title : "This cannot be analysed"}</h2>
      <p>{inWords(problem)}</p>
      {fieldOf(pointer) && <p class="muted">The field is marked beside the text.</p>}
      {hint && <p class="muted">{hint}</p>}
      {canRetry(status) && again}
    </div>
  );
}

// The progress of several requests, counted in layers.
export const Progressing = ({ words, done, of }: { words: string; done: number; of: number }) => (
  <div class="notice progress" role="status">
    <p>
      {words}: {done} of {of} layers
    </p>
    <progress max={of} value={done} aria-label="Layers done" />
  </div>
);

function progressOf(app: App, { progress, started }: Entry<unknown>, cancel: () => void): VNode {
  const { received, total } = progress;
  const waited = performance.now() - started;
  if (waited < PATIENCE_MS) setTimeout(app.draw, PATIENCE_MS - waited + 10);
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);
  return (
    <div class={`notice progress${waited < PATIENCE_MS ? " early" : ""}`} role="status">
      <p>{total ? `Receiving ${megabytes(received)} of ${megabytes(total)} MB` : "Computing the heads…"}</p>
      {total ? <progress max={total} value={received} aria-label="Received" /> : <progress aria-label="Computing" />}
      <button type="button" onClick={cancel}>
        Cancel
      </button>
    </div>
  );
}
