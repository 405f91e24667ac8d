// The runs of the server, a card each: how far it is, its report, and what can be done with it.
import { Problem } from "./api";
import { cancelRun, deleteRun, fetchReport, isActive, reportAddress, type Run } from "./corpora";
import { h, replace } from "./dom";
import { embedded } from "./embed";
import { save } from "./export";
import { PrecisionBadge, roundedTo } from "./precision";
import { dateOfRun, nameOfRun } from "./run-names";
import { token } from "./token";

const STATES: Record<Run["state"], string> = {
  queued: "Waiting",
  running: "Running",
  done: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

// A run that was cancelled has one of the texts counted until then.
const hasReport = ({ state, texts_done }: Run): boolean =>
  state === "done" || (state === "cancelled" && texts_done > 0);

const count = (n: number, one: string): string => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// "mini · 1,204 of 20,000 texts · 310 texts/s · 1 min left"
export function progressOf(run: Run): string {
  const { texts_done: done, texts_total: total, texts_per_second: rate, eta_seconds: left } = run;
  return [
    run.model ?? "",
    isActive(run) && total ? `${done.toLocaleString("en")} of ${count(total, "text")}` : count(done, "text"),
    run.state === "running" && rate ? `${rate.toFixed(rate < 10 ? 1 : 0)} texts/s` : "",
    run.state === "running" && typeof left === "number" ? `${duration(left)} left` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

class Card {
  readonly element = h("li", { class: "run card" });
  private readonly state = h("span", { class: "state" });
  private readonly badge = new PrecisionBadge();
  private readonly words = h("p", { class: "muted" });
  private readonly bar = h("progress", {});
  private readonly why = h("p", { class: "error", hidden: true }); // the run failed
  private readonly bad = h("p", { class: "bad" });
  private readonly wrong = h("p", { class: "error", role: "alert", hidden: true }); // what was asked of it
  private readonly links = h("span", { class: "links" });
  private readonly act = h("button", { type: "button", onclick: () => void this.doIt() });
  private readonly title = h("h3", {});
  private run: Run;
  private shown = "";

  constructor(
    run: Run,
    private readonly changed: (id: string) => void,
  ) {
    this.run = run;
    const name = nameOfRun(run);
    this.bar.setAttribute("aria-label", `Progress of ${name}`);
    this.element.append(
      h("div", { class: "head" }, this.title, this.badge.element, this.state),
      this.words,
      this.bar,
      this.why,
      this.bad,
      this.wrong,
      h("div", { class: "actions" }, this.links, !embedded && this.act),
    );
  }

  update(run: Run, title: string): void {
    this.run = run;
    const shown = JSON.stringify([run, title]);
    if (shown === this.shown) return;
    this.title.textContent = title;
    this.shown = shown;
    const active = isActive(run);
    this.element.dataset.state = run.state;
    this.state.textContent = STATES[run.state];
    this.badge.show(roundedTo(run.precision));
    this.words.textContent = [progressOf(run), dateOfRun(run)].filter(Boolean).join(" · ");
    this.words.title = run.created ?? "";
    this.bar.hidden = !active;
    if (run.texts_total) {
      this.bar.max = run.texts_total;
      this.bar.value = run.texts_done;
    } else this.bar.removeAttribute("value");
    this.why.textContent = run.error ?? "";
    this.why.hidden = !run.error;
    replace(this.bad, badOf(run));
    this.bad.hidden = !this.bad.firstChild;
    this.act.textContent = active ? "Cancel" : "Delete";
    this.act.setAttribute("aria-label", `${active ? "Cancel" : "Delete"} ${nameOfRun(run)}`);
    const link = (text: string, format: "html" | "json" | "npz"): HTMLElement =>
      token()
        ? h("button", { type: "button", class: "link", onclick: () => void this.save(format) }, `${text} (save)`)
        : h(
        "a",
        format === "html"
          ? { href: reportAddress(run.id, format), target: "_blank", rel: "noopener" }
          : { href: reportAddress(run.id, format), download: `${nameOfRun(run)}.${format}` },
        text,
      );
    replace(
      this.links,
      hasReport(run) && [link("Open the report", "html"), link("JSON", "json"), link("npz", "npz")],
    );
  }

  private async save(format: "html" | "json" | "npz"): Promise<void> {
    this.wrong.hidden = true;
    try {
      save(await fetchReport(this.run.id, format), `${nameOfRun(this.run)}.${format}`);
    } catch (error) {
      this.tell(error);
    }
  }

  private tell(error: unknown): void {
    this.wrong.hidden = false;
    this.wrong.textContent = error instanceof Problem ? error.detail || error.title : String(error);
  }

  private async doIt(): Promise<void> {
    const { run } = this;
    if (!isActive(run) && !confirm(`Delete the run ${nameOfRun(run)} and its report?`)) return;
    this.act.disabled = true;
    this.wrong.hidden = true;
    try {
      await (isActive(run) ? cancelRun : deleteRun)(run.id);
      this.changed(run.id);
    } catch (error) {
      this.tell(error);
    } finally {
      this.act.disabled = false;
    }
  }
}

const BAD_SHOWN = 12;
function badOf({ bad_lines: bad = [], bad_lines_total: total = bad.length }: Run): string {
  if (!total) return "";
  const some = bad.slice(0, BAD_SHOWN).join(", "); // none in a list of runs: their own pages have them
  return `Left out ${count(total, "line")}${some && `: ${some}`}${some && total > BAD_SHOWN ? ", …" : ""}`;
}

export class RunList {
  readonly element = h("ol", { class: "runs", "aria-label": "Runs" });
  private readonly cards = new Map<string, Card>();

  // changed: a run was cancelled or deleted.
  constructor(
    private readonly changed: (id: string) => void,
    private readonly title: (run: Run) => string,
  ) {}

  update(runs: readonly Run[]): void {
    for (const id of this.cards.keys()) if (!runs.some((run) => run.id === id)) this.cards.delete(id);
    const wanted = runs.map((run) => {
      let card = this.cards.get(run.id);
      if (!card) this.cards.set(run.id, (card = new Card(run, this.changed)));
      card.update(run, this.title(run));
      return card.element;
    });
    // Only when it differs: to put an element in its place anew takes the focus from it.
    if (wanted.length !== this.element.children.length || wanted.some((e, n) => this.element.children[n] !== e))
      this.element.replaceChildren(...wanted);
  }
}
