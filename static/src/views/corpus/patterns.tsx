// The patterns of all heads over the texts of a run, as a map of layers by heads and as a table.
import type { App } from "../../app/app";
import { FIGURES, isSought, ONLY, onlyName, PATTERN_NAMES, type Only } from "../../heads/figures";
import { HeadLink, HeadMap, type HeadNumbers } from "../../heads/head-map";
import { isLifted, type Pattern as AnyPattern } from "../../heads/patterns";
import { lutOf } from "../../maps/colour";
import type { Bar } from "../../maps/colour-bar";
import { linearBar, placesUpTo } from "../../maps/linear";
import { format, maximumOf, percent } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { Field, Input } from "../../ui/controls";
import { StateDisclosure, StateSelect } from "../../ui/state-controls";
import { columnOf, signOf, Sortable, type Column } from "../../ui/sortable";
import { capital } from "../../app/words";
import type { Report, Run } from "./api";

type Pattern = Exclude<AnyPattern, "nearby">; // reports have no such number

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
const COLUMNS = Object.keys(ARRAYS) as Pattern[];

const nameOf = (column: Pattern): string => (column === "broad" ? "Entropy, nats" : capital(PATTERN_NAMES[column]));
const write = (column: Pattern, value: number): string => (column === "broad" ? format(value) : percent(value));

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
  Record<(typeof ARRAYS)[Pattern] | "profiles_label", number[][]> & { even_same_sentence_sum: number };
const isProfiled = (report: Report): report is Profiled => "profiles_same_sentence" in report;

// The service's labels (Clark et al.), each with the patterns it covers.
const OF_LABEL: readonly (readonly Pattern[])[] = [
  ["previous", "next", "self"],
  ["first", "separator", "punctuation"],
  ["broad"],
];
const REPEATED_LEAST = 0.5;

// Empty for a run of a version that did not count them.
export function runHeads(report: Report): Head[] {
  if (!isProfiled(report)) return [];
  const chance = report.even_same_sentence_sum / report.texts;
  const other = ({ repeated, sentence }: Head["values"]): Head["pattern"] =>
    repeated > REPEATED_LEAST ? "repeated" : isLifted(sentence, chance) ? "sentence" : "";
  return report.layers.flatMap((layer, l) =>
    (report.profiles_label[l] ?? []).map((label, head): Head => {
      const value = (name: Pattern): number => report[ARRAYS[name]][l]?.[head] ?? NaN;
      const values = Object.fromEntries(COLUMNS.map((name) => [name, value(name)])) as Head["values"];
      const kinds = [...(OF_LABEL[label] ?? [])].sort((a, b) => values[b] - values[a]);
      return { layer, head, values, pattern: kinds[0] ?? other(values) };
    }),
  );
}

export const chooseHeads = (heads: readonly Head[], only: Only, sought: string): Head[] =>
  heads.filter(
    ({ layer, head, pattern }) =>
      (only === "all" || only === (pattern || "none")) && (!sought.trim() || isSought(layer, head, pattern, sought)),
  );

// The order is of "head", "pattern" or a column of the table.
export function sortHeads(heads: readonly Head[], order: string): Head[] {
  const [name, sign] = [columnOf(order), signOf(order)];
  const difference = (a: Head, b: Head): number => {
    if (name === "pattern") return Number(!a.pattern) - Number(!b.pattern) || sign * a.pattern.localeCompare(b.pattern);
    return name === "head" ? 0 : sign * (a.values[name as Pattern] - b.values[name as Pattern]);
  };
  const placed = name === "head" ? sign : 1;
  return [...heads].sort((a, b) => difference(a, b) || placed * (a.layer - b.layer || a.head - b.head));
}

// A column's numbers of the chosen heads.
function numbersOf({ state, theme }: App, report: Report, chosen: readonly Head[], column: Pattern): HeadNumbers {
  const values = Array.from({ length: Math.max(...report.layers) + 1 }, (_, layer) =>
    Array.from(
      { length: report.heads },
      (_, k) => chosen.find((one) => one.layer === layer && one.head === k)?.values[column] ?? null,
    ),
  );
  const top = maximumOf(Float32Array.from(chosen, (head) => head.values[column]));
  const label = column === "broad" ? "Entropy of attention, nats" : FIGURES[column].name;
  return {
    name: ARRAYS[column],
    values,
    place: placesUpTo(top),
    bar: { ...linearBar(label, lutOf(state.map, "attention", theme), top), ...(column !== "broad" && inPercent(top)) },
    write: (value) => write(column, value),
    caption: `${label}: mean over the texts of the run; layers down, heads across`,
  };
}

function chosenOf({ state }: App, report: Report): Head[] {
  return sortHeads(chooseHeads(runHeads(report), state.runonly, state.runseek), state.runcolumn);
}

// The numbers of all heads, while they are shown.
export function patternNumbers(app: App, report: Report): HeadNumbers | null {
  const { runheads, runcolumn } = app.state;
  const column = COLUMNS.find((name) => name === columnOf(runcolumn)) ?? "previous";
  return runheads && runHeads(report).length ? numbersOf(app, report, chosenOf(app, report), column) : null;
}

// Opens a head on the text of the state, in the run's model if the server has it.
export function openInRun(app: App, { model }: Run, layer: number, head: number): void {
  const at = app.models.findIndex(({ name }) => name === model);
  const name = at < 0 ? app.state.model : at ? (app.models[at]?.name ?? "") : "";
  app.go("head", { layer, head, pin: [], model: name });
}

export function RunPatterns({ run, report }: { run: Run; report: Report }) {
  const app = useApp();
  const { runheads, runseek, runcolumn } = app.state;
  if (!runHeads(report).length) return null;
  const numbers = patternNumbers(app, report);
  const rows = runheads ? chosenOf(app, report) : [];
  const openHead = (layer: number, head: number): void => openInRun(app, run, layer, head);
  const columns: Column<Head>[] = [
    {
      key: "head",
      name: "Head",
      words: true,
      cell: ({ layer, head }) => <HeadLink layer={layer} head={head} onOpen={openHead} />,
    },
    { key: "pattern", name: "Pattern", words: true, cell: ({ pattern }) => PATTERN_NAMES[pattern || "none"] },
    ...COLUMNS.map((column) => ({
      key: column,
      name: nameOf(column),
      cell: ({ values }: Head) => write(column, values[column]),
    })),
  ];
  return (
    <StateDisclosure field="runheads" title={`Patterns of all heads over the texts of ${run.name}`}>
      <div class="toolbar">
        <StateSelect
          help="pattern"
          field="runonly"
          options={ONLY.filter((name) => name !== "induction" && name !== "nearby").map(
            (name) => [name, onlyName(name)] as const,
          )}
        />
        <Field label="Find heads" help="seek" class="seek">
          <Input
            type="search"
            placeholder="7·5, layer 3, previous …"
            value={runseek}
            onInput={(e) => app.set({ runseek: e.currentTarget.value })}
          />
        </Field>
      </div>
      {numbers && <HeadMap of={numbers} onOpen={openHead} />}
      <Sortable
        label="Patterns of all heads"
        caption={`${rows.length} heads. Fractions of each query’s attention, mean over queries and texts.`}
        columns={columns}
        rows={rows}
        order={runcolumn}
        onSort={app.setter("runcolumn")}
        keyOf={({ layer, head }) => `${layer} ${head}`}
      />
    </StateDisclosure>
  );
}
