// The figures of runs side by side: the server's charts of all, and one figure in full, with tables.
import type { CorpusComparison } from "../../../../build/openapi";
import { format, percent } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Button, Select } from "../../ui/controls";
import { comparisonAddress, type Compared, type Report, type Run } from "./api";
import { RunLabels } from "./labels";
import { FileLinks, useAttempt } from "./list";
import { fileName, nameOfRun } from "./names";
import { Part } from "./pages";
import { openInRun, patternNumbers, RunPatterns } from "./patterns";
import { RunPruning } from "./pruning";

// Thresholds that all runs counted at.
export function commonThresholds({ runs }: CorpusComparison): number[] {
  const lists = runs.map(({ provenance }) =>
    (provenance as unknown as { options: { thresholds: number[] } }).options.thresholds.map((tau) =>
      Number(tau.toPrecision(6)),
    ),
  );
  return (lists[0] ?? []).filter((tau) => lists.every((list) => list.includes(tau)));
}

interface Props {
  runs: readonly Run[];
  compared: Compared;
  report: Report; // of the first
  page: Document | null; // of the first's report; null: on its way
  also: { current: Exportable["also"] }; // saved with it
}

export function RunCompare({ runs, compared, report, page, also }: Props) {
  const app = useApp();
  const { numbers, page: drawn } = compared;
  const figure = numbers.figures.find(({ name }) => name === app.state.figure) ?? numbers.figures[0];
  useExport(() => ({
    name: `headscope-runs-${fileName(runs.map(nameOfRun).join("-"))}`,
    title: `headscope · ${runs.map(nameOfRun).join(" and ")}`,
    provenance: {
      tool: "headscope",
      runs: numbers.runs.map(({ provenance }) => provenance),
      page: app.address.href(),
    },
    part: ".run-compare",
    rows: () => tableOf(numbers),
    heads: patternNumbers(app, report),
    also: also.current,
  }));
  const [first] = runs;
  const onOpen = (layer: number, head: number): void => void (first && openInRun(app, first, report, layer, head));
  const ofRun = first && { run: first, report, page, onOpen };
  const thresholds = commonThresholds(numbers);
  return (
    <div class="run-compare">
      <div class="toolbar">
        <Select
          label="Threshold"
          help="tau"
          value={thresholds.find((tau) => Math.abs(tau - numbers.threshold) < 1e-6) ?? NaN}
          options={thresholds.map((tau) => [tau, String(tau)] as const)}
          onChange={app.setter("level")}
        />
      </div>
      <Legend runs={runs} numbers={numbers} />
      <ComparisonLinks runs={runs} threshold={app.state.level} />
      <div class="plots">
        {numbers.figures.map(({ name, title }) => (
          <figure class="plot" key={name} aria-label={title}>
            <Button
              class="plain"
              title="Shows it in full, with its tables."
              aria-pressed={name === figure?.name}
              onClick={() => app.set({ figure: name })}
            >
              {title}
            </Button>
            <Part page={drawn} select={`#figure-${name} .panels > svg:first-child`} onOpen={onOpen} />
          </figure>
        ))}
      </div>
      {figure && (
        <section class="run-figure" aria-label={figure.title}>
          <h3>{figure.title}</h3>
          <Part page={drawn} select={`#figure-${figure.name} > :not(h2)`} onOpen={onOpen} />
        </section>
      )}
      {ofRun && <RunLabels {...ofRun} />}
      {ofRun && <RunPruning {...ofRun} />}
      {ofRun && <RunPatterns {...ofRun} />}
    </div>
  );
}

// Names the runs by their numbers in the charts.
function Legend({ runs, numbers }: { runs: readonly Run[]; numbers: CorpusComparison }) {
  const of = (name: string, n: number): number | null => numbers.run_figures[name]?.[n] ?? null;
  const masked = (n: number): string =>
    of("masked_loss", n) === null
      ? ""
      : ` · masked tokens found: ${percent(of("masked_accuracy", n))}, loss ${format(of("masked_loss", n))}`;
  return (
    <>
      <div class="run-legend">
        {runs.map((run, n) => (
          <div class="key" key={run.id}>
            <b>run {n}</b>
            <strong>{nameOfRun(run)}</strong>
            <span class="muted">{`${of("texts", n)?.toLocaleString("en") ?? ""} texts${masked(n)}`}</span>
          </div>
        ))}
      </div>
      {numbers.warnings.map((warning) => (
        <p class="muted" key={warning}>
          {warning}
        </p>
      ))}
    </>
  );
}

// The server's own comparison of these runs, as files.
function ComparisonLinks({ runs, threshold }: { runs: readonly Run[]; threshold: number }) {
  const [attempt, failure] = useAttempt();
  const ids = runs.map(({ id }) => id);
  return (
    <div class="comparison-links">
      <FileLinks
        name="comparison"
        formats={[
          ["html", "Open the comparison"],
          ["json", "JSON"],
          ["csv", "CSV"],
        ]}
        addressOf={(format) => comparisonAddress(ids, format, threshold)}
        attempt={attempt}
      />
      {failure}
    </div>
  );
}

// All figures of layers and heads, a column for each run.
function tableOf({ figures, threshold, layers, runs, ...of }: CorpusComparison): (string | number)[][] {
  const row = (place: (string | number)[], values: (number | null | undefined)[]): (string | number)[] => [
    ...place,
    ...values.map((value) => value ?? ""),
  ];
  return [
    ["figure", "threshold", "layer", "head", ...runs.map((_, n) => ["first", "second"][n] ?? `run${n + 1}`)],
    ...figures.flatMap(({ name }) => {
      const [ofLayers, ofHeads] = [of.layer_figures[name] ?? [], of.head_figures?.[name] ?? []];
      return layers.flatMap((layer, l) => [
        row(
          [name, threshold, layer, ""],
          ofLayers.map((run) => run[l]),
        ),
        ...(ofHeads[0]?.[l] ?? []).map((_, head) =>
          row(
            [name, threshold, layer, head],
            ofHeads.map((run) => run[l]?.[head]),
          ),
        ),
      ]);
    }),
  ];
}
