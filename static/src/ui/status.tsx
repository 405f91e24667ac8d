// Stands in a view's place while its answer is on the way, or when it failed or was cancelled.
import type { ComponentChildren, VNode } from "preact";
import type { Problem } from "../app/api";
import type { App } from "../app/app";
import type { Entry } from "../app/cache";
import { canRetry, fieldOf, inWords } from "../app/problems";
import { megabytes } from "../app/words";
import { useApp } from "./context";
import { Button } from "./controls";

const PATIENCE_MS = 150; // quicker answers show no progress

// Null once the answer is here. `shown`: the answer before it is still on screen, so that nobody sees a wait.
export function statusOf(app: App, entry: Entry<unknown> | null | undefined, shown = false): VNode | null {
  if (!entry) return null;
  const again = (
    <Button class="primary" onClick={entry.retry}>
      Try again
    </Button>
  );
  if (entry.status === "loading") return shown ? null : progressOf(app, entry);
  if (entry.status === "cancelled") return <Notice>Cancelled. {again}</Notice>;
  return entry.problem && problemNotice(entry.problem, again, entry.problem === app.overview().problem);
}

export function Notice(props: { title?: string; children: ComponentChildren }) {
  return (
    <div class="notice" role="status">
      {props.title && <h2>{props.title}</h2>}
      {props.children}
    </div>
  );
}

// One line in a view, such as that it waits for something.
export const StatusLine = ({ children }: { children: ComponentChildren }) => (
  <p class="muted" role="status">
    {children}
  </p>
);

export const waitNote = ({ retryAfter }: Problem): string =>
  retryAfter ? `The server asks to wait ${retryAfter} s.` : "";

// Null for a missing token: its own form says so. `marked`: the panel shows the problem at its field, too.
export function problemNotice(problem: Problem, again: ComponentChildren, marked = false): VNode | null {
  const { status, title, pointer } = problem;
  if (status === 401) return null;
  const hint = waitNote(problem);
  return (
    <div class="notice problem" role="alert">
      <h2>{canRetry(status) ? title : "This cannot be analysed"}</h2>
      <p>{inWords(problem)}</p>
      {marked && fieldOf(pointer) && <p class="muted">The field is marked beside the text.</p>}
      {hint && <p class="muted">{hint}</p>}
      {canRetry(status) && again}
    </div>
  );
}

// The progress of several requests, counted in layers. `next`: the one under way; null: all are here.
export function LayersProgress(props: { words: string; done: number; of: number; next: Entry<unknown> | null }) {
  const app = useApp();
  const { words, done, of, next } = props;
  if (!next) return null;
  if (next.status === "failed") return statusOf(app, next);
  const stopped = next.status === "cancelled";
  return (
    <div class="layers-progress">
      <progress max={of} value={done} aria-label="Layers done" />
      <span role="status">
        {words}: {done} of {of} layers{stopped && ", then cancelled"}
      </span>
      <Button onClick={stopped ? next.retry : next.cancel}>{stopped ? "Continue" : "Cancel"}</Button>
    </div>
  );
}

function progressOf(app: App, { progress, started, cancel }: Entry<unknown>): VNode {
  const { received, total } = progress;
  const waited = performance.now() - started;
  if (waited < PATIENCE_MS) setTimeout(app.draw, PATIENCE_MS - waited + 10);
  return (
    <div class={`notice progress${waited < PATIENCE_MS ? " early" : ""}`} role="status">
      <p>{total ? `Receiving ${megabytes(received)} of ${megabytes(total)} MB` : "Computing the heads…"}</p>
      {total ? <progress max={total} value={received} aria-label="Received" /> : <progress aria-label="Computing" />}
      <Button onClick={cancel}>Cancel</Button>
    </div>
  );
}
