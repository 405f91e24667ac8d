// Corpus runs: start one, watch it, open its report, and set two beside each other.
import type { Problem } from "../api";
import type { App } from "../app";
import type { Run } from "../corpora";
import { h, replace, select, type Select } from "../dom";
import { embedded } from "../embed";
import type { Exportable } from "../export";
import { RunCompare, type Side } from "../run-compare";
import { RunForm } from "../run-form";
import { progressOf, RunList } from "../run-list";
import { nameOfRun } from "../run-names";
import { Runs } from "../runs";

export class CorpusView {
  readonly element: HTMLElement;
  private readonly runs: Runs;
  private readonly form: RunForm;
  private readonly list: RunList;
  private readonly compare: RunCompare;
  private readonly status = h("div");
  private readonly picks: { run: Select; run2: Select };
  private readonly comparison: HTMLElement;
  private readonly missing = h("div", { class: "notice", role: "status" });
  private readonly waiting = h("div");
  private readonly main: HTMLElement;
  private sides: Side[] = [];

  constructor(private readonly app: App) {
    this.runs = new Runs(
      () => this.element.isConnected,
      app.draw,
      (run) => app.readout(`Run ${nameOfRun(run)}: ${run.state}, ${progressOf(run)}`, true),
    );
    this.form = new RunForm(app, () => void this.runs.refresh());
    this.list = new RunList((id) => {
      this.runs.forget(id);
      void this.runs.refresh();
    }, (run) => this.runs.title(run));
    this.compare = new RunCompare(app);
    this.picks = {
      run: select("First run", [], (run) => app.set({ run }, true)),
      run2: select("Second run", [], (run2) => app.set({ run2 }, true)),
    };
    this.comparison = h(
      "section",
      { class: "comparison", "aria-label": "Two runs side by side" },
      h("h2", {}, "Side by side"),
      h("div", { class: "toolbar" }, this.picks.run.element, this.picks.run2.element),
      this.waiting,
      this.compare.element,
    );
    this.main = h(
      "div",
      { class: "corpus-main" },
      h("h2", {}, "Runs"),
      this.status,
      this.list.element,
      this.missing,
      this.comparison,
    );
    this.element = h("section", { class: "view corpus", "aria-label": "Corpus" }, this.form.element, this.main);
    if (!embedded) this.form.catchDrops(this.element);
  }

  update(): void {
    this.runs.follow();
    this.form.update();
    const { list, problem } = this.runs;
    const absent = problem !== null && isAbsence(problem);
    this.form.element.hidden = absent || embedded;
    this.element.classList.toggle("absent", absent || embedded);
    replace(this.status, this.tellStatus(absent));
    this.list.update(absent ? [] : (list ?? []));
    const done = absent ? [] : (list ?? []).filter(({ state }) => state === "done");
    this.tellMissing(list ? absentRuns(this.app.state, done) : []);
    this.tellComparison(done);
  }

  private tellStatus(absent: boolean): HTMLElement | null {
    const { list, problem } = this.runs;
    if (absent) return noService();
    if (problem?.status === 401) return null; // the token's place says so
    if (problem)
      return h(
        "div",
        { class: "notice problem", role: "alert" },
        h("h2", {}, problem.title),
        h("p", {}, problem.detail),
        h("button", { type: "button", class: "primary", onclick: () => void this.runs.refresh() }, "Try again"),
      );
    if (!list) return h("p", { class: "muted", role: "status" }, "Asking for the runs…");
    return list.length ? null : nothingYet();
  }

  private tellMissing(ids: readonly string[]): void {
    const words = ids.map((id) => `The address names the run ${id}, which is not among the finished ones here.`).join(" ");
    if (this.missing.textContent !== words) this.missing.textContent = words;
    this.missing.hidden = !words;
  }

  private tellComparison(done: readonly Run[]): void {
    const { state } = this.app;
    this.comparison.hidden = done.length === 0;
    this.sides = [];
    if (!done.length) return;
    const first = done.find(({ id }) => id === state.run) ?? done[0]!;
    const second =
      state.run2 === "-"
        ? undefined
        : (done.find(({ id }) => id === state.run2) ?? done.find((run) => run !== first));
    // So that a link shows the same two, whatever runs come after.
    if (!state.run) this.app.settle({ run: first.id });
    if (!state.run2 && second) this.app.settle({ run2: second.id });
    const named = done.map((run) => [run.id, this.runs.title(run)] as const);
    offer(this.picks.run, named, first.id);
    offer(this.picks.run2, [...named, ["-", "none"]], second?.id ?? "-");
    const chosen = second ? [first, second] : [first];
    const loaded = chosen.map((run) => ({ run: { ...run, name: this.runs.title(run) }, ...this.runs.report(run.id) }));
    const failed = loaded.find(({ problem }) => problem);
    const ready = loaded.every(({ report }) => report);
    replace(
      this.waiting,
      failed
        ? h(
            "p",
            { class: "error", role: "alert" },
            `${nameOfRun(failed.run)}: ${failed.problem!.detail || failed.problem!.title}`,
          )
        : !ready && h("p", { class: "muted", role: "status" }, "Reading the reports…"),
    );
    this.compare.element.hidden = !ready;
    if (!ready) return;
    this.sides = loaded.map(({ run, report }) => ({ run, report: report! }));
    this.compare.update(this.sides);
  }

  exportable(): Exportable | null {
    return this.sides.length ? this.compare.exportable() : null;
  }
}

const absentRuns = ({ run, run2 }: { run: string; run2: string }, done: readonly Run[]): string[] =>
  [run, run2].filter((id) => id && id !== "-" && !done.some((known) => known.id === id));

function offer({ input }: Select, options: readonly (readonly [string, string])[], chosen: string): void {
  const key = JSON.stringify(options);
  if (input.dataset.key !== key) {
    input.dataset.key = key;
    replace(
      input,
      options.map(([value, name]) => h("option", { value }, name)),
    );
  }
  input.value = chosen;
}

// Not "come back later", which is a 503 with Retry-After.
const isAbsence = ({ status, retryAfter }: Problem): boolean =>
  status === 404 || status === 501 || (status === 503 && !retryAfter);

const noService = (): HTMLElement =>
  h(
    "div",
    { class: "notice", role: "status" },
    h("h2", {}, "This server keeps no corpus runs"),
    h("p", {}, "Start it with a folder for them, then reload this page:"),
    h("pre", { tabindex: 0 }, "headscope serve --state DIR"),
    h("p", {}, "Without a server, the same report comes from the command line:"),
    h("pre", { tabindex: 0 }, "headscope corpus FILES -o DIR"),
  );

const nothingYet = (): HTMLElement =>
  h(
    "div",
    { class: "notice" },
    h("h2", {}, "No runs yet"),
    h(
      "p",
      {},
      "Drop a file of texts, one a line, plain or NDJSON, and start the run. It counts the paper’s statistics over all of them and ends with a report of its figures.",
    ),
    h(
      "p",
      { class: "muted" },
      "Two finished runs, of two models or of two kinds of text, can be set side by side here.",
    ),
  );
