// The patterns of all heads over the texts of a run: a map of layers by heads, and the report's table.
import type { App } from "../../app/app";
import { FIGURES } from "../../heads/figures";
import { HeadMap, type HeadNumbers } from "../../heads/head-map";
import { isLifted } from "../../heads/patterns";
import { linearTint, type Values } from "../../heads/tint";
import { lutOf } from "../../maps/colour";
import type { Bar } from "../../maps/colour-bar";
import { format, percent } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { Field, Input, Select } from "../../ui/controls";
import { StateDisclosure } from "../../ui/state-controls";
import type { Report, Run } from "./api";
import { PagePart, type OpenHead } from "./pages";
import { RUN_PATTERN_NAMES, RUN_PATTERNS, type RunPattern as Pattern } from "./state";

// A run, and what is known of it.
export interface OfRun {
  run: Run;
  report: Report;
  page: Document | null; // the report as the server drew it; null: on its way
  onOpen: OpenHead;
}

// The report's names of its arrays [l][h]: fractions of each query's attention, entropy in nats.
const ARRAYS = {
  previous: "profiles_previous",
  next: "profiles_next",
  self: "profiles_self",
  first: "profiles_first",
  separator: "profiles_separator",
  punctuation: "profiles_punctuation",
  repeated: "profiles_same_token",
  sentence: "profiles_same_sentence",
  broad: "profiles_entropy",
} as const satisfies Record<Pattern, string>;

// The bar's ticks and words of fractions.
const inPercent = (top: number): Pick<Bar, "ticks" | "words"> => ({
  ticks: [0, 0.5, 1].map((at) => ({ at, label: at ? percent(at * top) : "0\u00a0%" })),
  words: `linear, 0\u00a0% to ${percent(top)}`,
});

export interface Head {
  layer: number;
  head: number;
  pattern: Pattern | "";
  values: Record<Pattern, number>;
}

type Profiled = Report &
  Partial<Record<(typeof ARRAYS)[Pattern] | "profiles_label", number[][]>> & { even_same_sentence_sum?: number };

// The patterns that a report has numbers of. Reports of early versions have none. Cross heads lack those that compare
// places in one text.
export const patternsOf = (report: Profiled): readonly Pattern[] =>
  report.profiles_entropy ? RUN_PATTERNS.filter((name) => report[ARRAYS[name]]) : [];

// The pattern to map: the chosen one, if the report has it.
const columnOf = ({ state }: App, report: Report): Pattern | undefined => {
  const patterns = patternsOf(report);
  return patterns.includes(state.runcolumn) ? state.runcolumn : patterns[0];
};

// The service's labels (Clark et al.), each with the patterns it covers.
const OF_LABEL: readonly (readonly Pattern[])[] = [
  ["previous", "next", "self"],
  ["first", "separator", "punctuation"],
  ["broad"],
];
const REPEATED_LEAST = 0.5;

// Empty for a run of a version that did not count them. Cross heads have no pattern, and NaN for what they lack.
export function runHeads(report: Profiled): Head[] {
  if (!patternsOf(report).length) return [];
  const { even_same_sentence_sum = NaN, texts, profiles_label = [] } = report;
  const chance = even_same_sentence_sum / texts;
  const other = ({ repeated, sentence }: Head["values"]): Head["pattern"] =>
    repeated > REPEATED_LEAST ? "repeated" : isLifted(sentence, chance) ? "sentence" : "";
  return report.layers.flatMap((layer, l) =>
    Array.from({ length: report.heads }, (_, head): Head => {
      const value = (name: Pattern): number => report[ARRAYS[name]]?.[l]?.[head] ?? NaN;
      const values = Object.fromEntries(RUN_PATTERNS.map((name) => [name, value(name)])) as Head["values"];
      const kinds = [...(OF_LABEL[profiles_label[l]?.[head] ?? NaN] ?? [])].sort((a, b) => values[b] - values[a]);
      return { layer, head, values, pattern: kinds[0] ?? other(values) };
    }),
  );
}

// A number for every head of the model's layers, up to the last that the run counted; null in layers that it left out.
export const valuesOfModel = ({ layers, heads }: Report, valueOf: (l: number, head: number) => number | null): Values =>
  Array.from({ length: Math.max(...layers) + 1 }, (_, layer) => {
    const l = layers.indexOf(layer);
    return Array.from({ length: heads }, (__, head) => (l < 0 ? null : valueOf(l, head)));
  });

// The numbers of all heads, while they are shown.
export function patternNumbers(app: App, report: Report): HeadNumbers | null {
  const { state, theme } = app;
  const column = columnOf(app, report);
  if (!state.runheads || !column) return null;
  const profiled: Profiled = report;
  const values = valuesOfModel(report, (l, head) => profiled[ARRAYS[column]]?.[l]?.[head] ?? null);
  const label = column === "broad" ? "Entropy of attention, nats" : FIGURES[column].name;
  const { top, bar, ...tint } = linearTint(values, label, lutOf(state.map, "attention", theme));
  return {
    name: ARRAYS[column],
    ...tint,
    bar: { ...bar, ...(column !== "broad" && inPercent(top)) },
    write: column === "broad" ? format : percent,
    caption: `${label}: mean over the texts of the run; layers down, heads across`,
  };
}

// Opens a head on the text of the state, in the run's stack and its model if the server has it.
export function openInRun(app: App, { model }: Run, report: Report, layer: number, head: number): void {
  const at = app.models.findIndex(({ name }) => name === model);
  const name = at < 0 ? app.state.model : at ? (app.models[at]?.name ?? "") : "";
  app.go("head", { layer, head, pin: [], model: name, stack: report.provenance.options.stack ?? "encoder" });
}

export function RunPatterns({ run, report, page, onOpen }: OfRun) {
  const app = useApp();
  const { runseek } = app.state;
  const column = columnOf(app, report);
  if (!column) return null;
  const crosses = report.provenance.options.stack === "cross";
  const numbers = patternNumbers(app, report);
  return (
    <StateDisclosure field="runheads" title={`Patterns of all heads over the texts of ${run.name}`}>
      <div class="toolbar">
        <Select
          label="Map of"
          help="pattern"
          value={column}
          options={patternsOf(report).map((name) => [name, RUN_PATTERN_NAMES[name]] as const)}
          onChange={app.setter("runcolumn")}
        />
        <Field label="Find heads" class="seek">
          <Input
            type="search"
            placeholder={crosses ? "7·5, 7 …" : "7·5, 7, position …"}
            title={crosses ? "By layer and head" : "By layer and head, or by the beginning of the label"}
            value={runseek}
            onInput={(e) => app.set({ runseek: e.currentTarget.value })}
          />
        </Field>
      </div>
      {crosses && (
        <p class="muted">
          Cross heads attend from one text to another, so they have no labels, and no patterns such as the previous
          token or the same sentence.
        </p>
      )}
      {numbers && <HeadMap of={numbers} onOpen={onOpen} />}
      <PagePart page={page} select="#profiles > p, #profiles .wide" onOpen={onOpen} sought={runseek} />
    </StateDisclosure>
  );
}
