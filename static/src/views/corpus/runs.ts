// The server's corpus runs, kept up to date while they are on screen, and the reports that were opened.
import {
  isActive,
  listRuns,
  loadComparison,
  loadPage,
  loadReport,
  loadRun,
  reportAddress,
  watchRun,
  type Compared,
  type Report,
  type Run,
} from "./api";
import { asProblem, type Problem } from "../../app/api";
import { dateOfRun, nameOfRun } from "./names";

const AGAIN_MS = 3000; // the list is fetched this often while a run is active
export const RUNS_MOST = 12; // side by side
const ANSWERS_MOST = 16;

interface Loaded<T> {
  value: T | null;
  problem: Problem | null; // both null: on its way
}

// Answers of the server, each requested once.
class Answers<T> {
  private readonly known = new Map<string, Loaded<T>>();

  constructor(private readonly onchange: () => void) {}

  want(key: string, load: () => Promise<T>): Loaded<T> {
    let answer = this.known.get(key);
    if (answer) return answer;
    if (this.known.size >= ANSWERS_MOST) this.known.clear();
    this.known.set(key, (answer = { value: null, problem: null }));
    const requested = answer;
    load()
      .then(
        (value) => (requested.value = value),
        (error) => (requested.problem = asProblem(error)),
      )
      .finally(this.onchange);
    return answer;
  }

  // Drops what names the run.
  forget(id: string): void {
    for (const key of this.known.keys()) if (key.includes(id)) this.known.delete(key);
  }
}

export class Runs {
  list: Run[] | null = null; // newest first; null until the server has answered
  problem: Problem | null = null;
  private readonly reports: Answers<Report>;
  private readonly pages: Answers<Document>;
  private readonly comparisons: Answers<Compared>;
  private requested = false;
  private timer = 0;
  private watched: { id: string; stop: () => void } | null = null;

  // onend hears of runs that came to their end while watched.
  constructor(
    private readonly seen: () => boolean,
    private readonly onchange: () => void,
    private readonly onend: (run: Run) => void,
  ) {
    this.reports = new Answers(onchange);
    this.pages = new Answers(onchange);
    this.comparisons = new Answers(onchange);
  }

  // Called at every drawing: begins to follow the runs, once.
  follow(): void {
    if (!this.requested) void this.refresh();
  }

  private rest(): void {
    clearTimeout(this.timer);
    this.watched?.stop();
    this.watched = null;
    this.requested = false;
  }

  async refresh(): Promise<void> {
    this.requested = true;
    clearTimeout(this.timer);
    try {
      const list = await listRuns();
      await Promise.all(list.map((run) => this.tellLines(run)));
      this.take(list);
      this.problem = null;
    } catch (error) {
      this.problem = asProblem(error);
    }
    if (!this.seen()) this.rest();
    else if (this.list?.some(isActive)) {
      this.watch();
      this.timer = setTimeout(() => void this.refresh(), AGAIN_MS);
    }
    this.onchange();
  }

  // A list says how many lines were left out; which ones, only the run's own page.
  private async tellLines(run: Run): Promise<void> {
    const old = this.list?.find(({ id }) => id === run.id);
    if (old?.bad_lines_total === run.bad_lines_total) run.bad_lines = old?.bad_lines;
    if (run.bad_lines_total && !run.bad_lines?.length) run.bad_lines = (await loadRun(run.id)).bad_lines;
  }

  private take(list: Run[]): void {
    const before = new Map(this.list?.map((run) => [run.id, run]));
    this.list = list;
    for (const run of list) {
      const old = before.get(run.id);
      if (old && isActive(old) && !isActive(run)) this.onend(run);
    }
  }

  // The one that runs, by its events; others wait for it.
  private watch(): void {
    const run = this.list?.find(({ state }) => state === "running") ?? this.list?.find(isActive);
    if (!run || this.watched?.id === run.id) return;
    this.watched?.stop();
    const stop = watchRun(
      run.id,
      (news) => {
        if (!this.seen()) return this.rest();
        this.take((this.list ?? []).map((old) => (old.id === news.id ? news : old)));
        this.onchange();
      },
      (ended) => {
        this.watched = null;
        if (ended && this.seen()) void this.refresh();
      },
    );
    this.watched = { id: run.id, stop };
  }

  // The run's name, with its date where another has the same.
  title(run: Run): string {
    const name = nameOfRun(run);
    const alike = this.list?.filter((other) => nameOfRun(other) === name) ?? [];
    if (alike.length < 2) return name;
    const minute = dateOfRun(run);
    const many = alike.filter((other) => dateOfRun(other) === minute).length > 1;
    return `${name} · ${(many ? dateOfRun(run, true) : minute) || run.id.slice(0, 6)}`;
  }

  report(id: string): Loaded<Report> {
    return this.reports.want(id, () => loadReport(id));
  }

  // The report as a page.
  page(id: string): Loaded<Document> {
    return this.pages.want(id, () => loadPage(reportAddress(id, "html")));
  }

  // At the first run's main threshold, if the runs cannot be compared at this one.
  comparison(ids: readonly string[], threshold: number): Loaded<Compared> {
    const answer = this.comparisons.want([...ids, threshold].join(" "), () => loadComparison(ids, threshold));
    return answer.problem && threshold ? this.comparison(ids, 0) : answer;
  }

  forget(id: string): void {
    for (const answers of [this.reports, this.pages, this.comparisons]) answers.forget(id);
  }
}
