// What stands in a view's place while its answer is on the way, failed or was given up.
import type { JsonAnswer } from "./answer";
import type { App } from "./app";
import type { Entry } from "./cache";
import { h } from "./dom";
import { fieldOf } from "./problems";

const PATIENCE_MS = 150; // quicker answers show no progress at all

// What can be given up and asked again: a cache.
interface Source<E> {
  cancel(entry: E): void;
  retry(entry: E): void;
}

export function statusOf(app: App, entry: Entry): HTMLElement | null {
  return statusIn(app, app.cache, entry);
}
export const jsonStatusOf = (app: App, entry: Entry<JsonAnswer>): HTMLElement | null => statusIn(app, app.jsonCache, entry);

function statusIn<A>(app: App, source: Source<Entry<A>>, entry: Entry<A>): HTMLElement | null {
  if (entry.status === "ready") return null;
  if (entry.status === "loading") return progress(app, source, entry);
  if (entry.status === "cancelled")
    return h("div", { class: "notice", role: "status" }, h("p", {}, "Cancelled."), again(source, entry));
  const { status, title, detail, pointer, retryAfter } = entry.problem!;
  if (status === 401) return null; // the token's place says so
  return h(
    "div",
    { class: "notice problem", role: "alert" },
    h("h2", {}, title),
    h("p", {}, detail.slice(0, 1).toUpperCase() + detail.slice(1)),
    fieldOf(pointer) ? h("p", { class: "muted" }, "The field in question is marked beside the text.") : null,
    retryAfter ? h("p", { class: "muted" }, `The server asks to wait ${retryAfter} s.`) : null,
    again(source, entry),
  );
}

const again = <A>(source: Source<Entry<A>>, entry: Entry<A>): HTMLElement =>
  h("button", { type: "button", class: "primary", onclick: () => source.retry(entry) }, "Try again");

function progress<A>(app: App, source: Source<Entry<A>>, entry: Entry<A>): HTMLElement {
  const { received, total } = entry.progress;
  const waited = performance.now() - entry.started;
  if (waited < PATIENCE_MS) setTimeout(app.draw, PATIENCE_MS - waited + 10);
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);
  return h(
    "div",
    { class: `notice progress${waited < PATIENCE_MS ? " early" : ""}`, role: "status" },
    h("p", {}, total ? `Receiving ${megabytes(received)} of ${megabytes(total)} MB` : "Computing the heads…"),
    h(
      "progress",
      total ? { max: total, value: received, "aria-label": "Received" } : { "aria-label": "Computing" },
    ),
    h("button", { type: "button", onclick: () => source.cancel(entry) }, "Cancel"),
  );
}
