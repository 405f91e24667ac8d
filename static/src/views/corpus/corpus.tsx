// Corpus runs: start one, watch it, open its report, and show several side by side.
import { useMemo, useRef } from "preact/hooks";
import type { Problem } from "../../app/api";
import type { State } from "../../app/state";
import { embedded } from "../../app/embed";
import { tellOffer } from "../../saving/offer";
import type { Exportable } from "../../saving/export";
import { useApp } from "../../ui/context";
import { Button, Select } from "../../ui/controls";
import { Notice, problemNotice, StatusLine } from "../../ui/status";
import type { Report, Run } from "./api";
import { RunCompare } from "./compare";
import { RunForm } from "./form";
import { progressOf, RunList } from "./list";
import { nameOfRun } from "./names";
import { Runs, RUNS_MOST } from "./runs";
import { Typical } from "./typical";

// The view shows parts of the report as the server drew them.
const needsPage = (report: Report, { runheads }: State): boolean =>
  runheads || "labels" in report || "pruning" in report;

const NONE = "-"; // in place of a second run

// A 503 with Retry-After says to come back later instead.
const isAbsence = ({ status, retryAfter }: Problem): boolean =>
  status === 404 || status === 501 || (status === 503 && !retryAfter);

// The runs shown, but for one that is gone.
const without = ({ run, run2, runs }: State, id: string): Partial<State> => {
  const kept = (one: string): string => (one === id ? "" : one);
  return { run: kept(run), run2: kept(run2), runs: runs.split(".").filter(kept).join(".") };
};

export function CorpusView() {
  const app = useApp();
  const runs = useMemo(
    () =>
      new Runs(
        () => app.state.view === "corpus",
        app.draw,
        (run) => app.announce(`Run ${nameOfRun(run)}: ${run.state}, ${progressOf(run)}`, true),
      ),
    [app],
  );
  runs.follow();
  const refresh = (): void => void runs.refresh();
  const absent = runs.problem !== null && isAbsence(runs.problem);
  const list = absent ? [] : (runs.list ?? []);
  const done = list.filter(({ state }) => state === "done");
  return (
    <section class={`view corpus${absent || embedded ? " absent" : ""}`} aria-label="Corpus">
      {!absent && !embedded && <RunForm onStart={refresh} />}
      <div class="corpus-main">
        <h2>Runs</h2>
        <ListStatus runs={runs} absent={absent} onRetry={refresh} />
        <RunList
          runs={list}
          titleOf={(run) => runs.title(run)}
          onChange={(id) => {
            runs.forget(id);
            void runs.refresh().then(() => app.commit(without(app.state, id)));
          }}
        />
        {runs.list && <MissingRuns done={done} />}
        {done.length > 0 && <Comparison runs={runs} done={done} />}
      </div>
    </section>
  );
}

function ListStatus({ runs, absent, onRetry }: { runs: Runs; absent: boolean; onRetry: () => void }) {
  const { list, problem } = runs;
  if (absent) return <NoService />;
  if (problem)
    return problemNotice(
      problem,
      <Button class="primary" onClick={onRetry}>
        Try again
      </Button>,
    );
  if (!list) return <StatusLine>Asking for the runs…</StatusLine>;
  return list.length ? null : <NothingYet />;
}

const NoService = () => (
  <Notice title="This server keeps no corpus runs">
    <p>Start it with a folder for them, then reload this page:</p>
    <pre tabIndex={0}>headscope serve --state DIR</pre>
    <p>Without a server, the same report comes from the command line:</p>
    <pre tabIndex={0}>headscope corpus FILES -o DIR</pre>
  </Notice>
);

const NothingYet = () => (
  <Notice title="No runs yet">
    <p>
      Drop a file of texts, one a line, plain or NDJSON, and start the run. It counts the paper’s statistics over all of
      them and ends with a report of its figures. Without a file at hand, run the sample.
    </p>
    <p class="muted">Finished runs, of checkpoints, models or kinds of text, can be shown side by side here.</p>
  </Notice>
);

function MissingRuns({ done }: { done: readonly Run[] }) {
  const { run, run2, runs } = useApp().state;
  const missing = [run, run2, ...runs.split(".")].filter(
    (id) => id && id !== NONE && !done.some((known) => known.id === id),
  );
  if (!missing.length) return null;
  return (
    <Notice>
      {missing.map((id) => `The address names the run ${id}, which is not among the finished ones here.`).join(" ")}
    </Notice>
  );
}

function Comparison({ runs, done }: { runs: Runs; done: readonly Run[] }) {
  const app = useApp();
  const { state } = app;
  const texts = useRef<Exportable["also"]>(null); // of the small multiples, while they are shown
  const onSaved = (made: Exportable["also"]): void => {
    texts.current = made;
    tellOffer();
  };
  // A head's texts are sought in the newest run of its model.
  const ofModel = state.typical ? done.find(({ model }) => model === app.modelName()) : undefined;
  const first = done.find(({ id }) => id === state.run) ?? ofModel ?? done[0];
  const others = done.filter((run) => run !== first);
  const second = state.run2 === NONE ? undefined : (others.find(({ id }) => id === state.run2) ?? others[0]);
  // So that a link shows the same two, even after later runs.
  if (!state.run && first) app.commit({ run: first.id });
  if (!state.run2 && second) app.commit({ run2: second.id });
  const options = done.map((run) => [run.id, runs.title(run)] as const);
  const two = [first, second].filter((run) => run !== undefined);
  const chosenIds = state.runs.split(".");
  const more = done.filter((run) => chosenIds.includes(run.id) && !two.includes(run)).slice(0, RUNS_MOST - 2);
  const chosen = more.length ? done.filter((run) => two.includes(run) || more.includes(run)).reverse() : two;
  const named = chosen.map((run) => ({ ...run, name: runs.title(run) }));
  const ids = chosen.map(({ id }) => id);
  const report = chosen[0] && runs.report(chosen[0].id);
  const compared = runs.comparison(ids, state.level);
  const page = report?.value && needsPage(report.value, state) && chosen[0] ? runs.page(chosen[0].id) : null;
  const problem = report?.problem ?? compared.problem ?? page?.problem;
  const ready = report?.value && compared.value;
  return (
    <section class="comparison" aria-label="Runs side by side">
      <h2>Side by side</h2>
      <div class="toolbar">
        <Select
          label="First run"
          help="corpus"
          value={first?.id ?? ""}
          options={options}
          onChange={app.setter("run", true)}
        />
        <Select
          label="Second run"
          help="corpus"
          value={second?.id ?? NONE}
          options={[...options, [NONE, "none"]]}
          onChange={app.setter("run2", true)}
        />
      </div>
      {second && done.length > 2 && (
        <MoreRuns
          runs={done.filter((run) => !two.includes(run))}
          chosen={more}
          titleOf={(run) => runs.title(run)}
          onChange={(chosen) => app.set({ runs: chosen.map(({ id }) => id).join(".") }, true)}
        />
      )}
      {problem && (
        <p class="error" role="alert">
          {problem.message}
        </p>
      )}
      {!ready && !problem && <StatusLine>Reading the reports…</StatusLine>}
      {report?.value && named[0] && <Typical run={named[0]} report={report.value} onSaved={onSaved} />}
      {report?.value && compared.value && (
        <RunCompare
          runs={named}
          compared={compared.value}
          report={report.value}
          page={page?.value ?? null}
          also={texts}
        />
      )}
    </section>
  );
}

function MoreRuns(props: {
  runs: readonly Run[];
  chosen: readonly Run[];
  titleOf: (run: Run) => string;
  onChange: (chosen: Run[]) => void;
}) {
  const { runs, chosen, titleOf, onChange } = props;
  const full = chosen.length >= RUNS_MOST - 2;
  return (
    <details class="more-runs">
      <summary>{chosen.length ? `More runs: ${chosen.length}` : "More runs"}</summary>
      <p class="muted">
        {`Up to ${RUNS_MOST} runs, with the first and second one, in the order in which they were started.`}
      </p>
      <ul>
        {runs.map((run) => {
          const on = chosen.includes(run);
          return (
            <li key={run.id}>
              <label>
                <input
                  type="checkbox"
                  checked={on}
                  disabled={full && !on}
                  onChange={() => onChange(on ? chosen.filter((one) => one !== run) : [...chosen, run])}
                />
                {titleOf(run)}
              </label>
            </li>
          );
        })}
      </ul>
    </details>
  );
}
