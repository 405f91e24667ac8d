// The server's corpus runs, kept up to date while they are on screen, and the reports that were opened.
import { isActive, listRuns, loadReport, loadRun, watchRun, type Report, type Run } from "./api";
import { asProblem, type Problem } from "../../app/api";
import { dateOfRun, nameOfRun } from "./names";

const AGAIN_MS = 3000; // the list is fetched this often while a run is active
export const RUNS_MOST = 12; // side by side
const REPORTS_MOST = RUNS_MOST + 4;

interface Loaded {
  report: Report | null;
  problem: Problem | null; // both null: on its way
}

export class Runs {
  list: Run[] | null = null; // newest first; null until the server has answered
  problem: Problem | null = null;
  private readonly reports = new Map<string, Loaded>();
  private requested = false;
  private timer = 0;
  private watched: { id: string; stop: () => void } | null = null;

  // onend hears of runs that came to their end while watched.
  constructor(
    private readonly seen: () => boolean,
    private readonly onchange: () => void,
    private readonly onend: (run: Run) => void,
  ) {}

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

  report(id: string): Loaded {
    let loaded = this.reports.get(id);
    if (loaded) return loaded;
    if (this.reports.size >= REPORTS_MOST) this.reports.clear();
    this.reports.set(id, (loaded = { report: null, problem: null }));
    const requested = loaded;
    loadReport(id)
      .then(
        (report) => (requested.report = report),
        (error) => (requested.problem = asProblem(error)),
      )
      .finally(this.onchange);
    return loaded;
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

  forget(id: string): void {
    this.reports.delete(id);
  }
}
