// Small multiples: one head on the texts of a run that are most typical of it, each as a small map that leads to its
// analysis.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { asProblem, type Problem } from "../../app/api";
import type { App } from "../../app/app";
import { escapeBidi } from "../../app/bidi";
import type { Entry } from "../../app/cache";
import { headRequest } from "../../app/requests";
import { FIGURES, onlyName } from "../../heads/figures";
import { nameOf, titleOf, type Selection } from "../../app/selection";
import { headsOf } from "../../heads/heads";
import type { Head } from "../../maps/analysis";
import { ColourBar } from "../../maps/colour-bar";
import { imageOf } from "../../maps/colour";
import { format, percent } from "../../maps/scale";
import { shadeOf, type Shade } from "../../maps/shade";
import type { Exportable } from "../../saving/export";
import { useApp } from "../../ui/context";
import { Notice, StatusLine } from "../../ui/status";
import { Button, Select } from "../../ui/controls";
import { StateDisclosure, StateSelect } from "../../ui/state-controls";
import { loadExamples, type Report, type Run } from "./api";
import {
  bysOf,
  columnsOf,
  inputOf,
  isOfAttention,
  pinOfStrongest,
  requestedOf,
  strongestOf,
  valuesOf,
  type By,
  type Example,
} from "./examples";
import { runHeads, type Head as Profiled } from "./patterns";
import { fileName, nameOfRun } from "./names";

export const TYPICAL_SHOWN = 12;

const SYNTAX = { syntax_attention: "Syntactic heads by attention", syntax_similarity: "Syntactic heads by similarity" };
const isSyntax = (by: By): by is keyof typeof SYNTAX => by in SYNTAX;
const nameOfBy = (by: By): string => (isSyntax(by) ? SYNTAX[by] : FIGURES[by].name);
const write = (by: By, value: number): string => (isSyntax(by) ? percent(value) : FIGURES[by].write(value));

// The figure that is large in the texts where a head's own pattern is clear.
const OF_PATTERN: Record<Profiled["pattern"], By> = {
  previous: "previous",
  next: "next",
  self: "self",
  first: "first",
  separator: "separator_attention",
  punctuation: "separator_attention",
  repeated: "repeated_share",
  sentence: "same_sentence_share",
  broad: "repeated_share",
  "": "repeated_share",
};

interface Loaded {
  key: string;
  examples: readonly Example[] | null;
  problem: Problem | null;
}

function useExamples(run: Run, layer: number, head: number, by: By): Loaded {
  const key = [run.id, layer, head, by].join(" ");
  const [loaded, setLoaded] = useState<Loaded>({ key: "", examples: null, problem: null });
  useEffect(() => {
    const controller = new AbortController();
    loadExamples(run.id, { layer, head, by, limit: TYPICAL_SHOWN }, controller.signal).then(
      ({ examples }) => setLoaded({ key, examples, problem: null }),
      (error: unknown) => {
        if (!controller.signal.aborted) setLoaded({ key, examples: null, problem: asProblem(error) });
      },
    );
    return () => controller.abort();
  }, [key]);
  return loaded.key === key ? loaded : { key, examples: null, problem: null };
}

interface Small {
  example: Example;
  entry: Entry;
  head: Head | null;
}

type Texts = NonNullable<Exportable["also"]>;

interface Props {
  run: Run;
  report: Report;
  onSaved: (texts: Texts | null) => void; // hears what can be saved of them, while they are shown
}

export function Typical({ run, report, onSaved }: Props) {
  const app = useApp();
  const { typical } = app.state;
  const place = useRef<HTMLDivElement>(null);
  // From another view, the part lies below the runs.
  useEffect(() => {
    const top = place.current?.getBoundingClientRect().top ?? 0;
    if (typical && app.state.view === "corpus" && top > innerHeight / 2) place.current?.scrollIntoView();
  }, [typical, app.state.view]);
  return (
    <div class="typical" ref={place}>
      <StateDisclosure field="typical" title={`One head on its most typical texts of ${nameOfRun(run)}`}>
        <Multiples run={run} report={report} onSaved={onSaved} />
      </StateDisclosure>
    </div>
  );
}

function Multiples({ run, report, onSaved }: Props) {
  const app = useApp();
  const { state, theme } = app;
  const layer = report.layers.includes(state.layer) ? state.layer : (report.layers[0] ?? 0);
  const head = Math.min(Math.max(0, state.head), report.heads - 1);
  const pattern = runHeads(report).find((one) => one.layer === layer && one.head === head)?.pattern ?? "";
  const by = state.typicalby === "pattern" ? OF_PATTERN[pattern] : state.typicalby;
  const { examples, problem } = useExamples(run, layer, head, by);
  const all = (examples ?? []).map((example): Small => {
    const entry = app.cache.want(headRequest(requestedOf(state, run, report, example), layer, head));
    return { example, entry, head: entry.answer && headsOf(app).exactHead(entry.answer) };
  });
  const reach = all.flatMap((one) => (one.head ? [valuesOf(one.head, by)] : []));
  const quantity = isOfAttention(by) ? "attention" : "similarity";
  const crosses = report.provenance.options.stack === "cross";
  const shadeFor = (one: Head): Shade => shadeOf(valuesOf(one, by), one.axis.n, quantity, { ...state, theme }, reach);
  const first = all.find((one) => one.head)?.head;
  const bar = first ? shadeFor(first) : null;
  const label = quantity === "attention" ? "Attention A" : "Normalised similarity N";
  const axes = quantity === "attention" ? "rows: target, columns: text" : "among the target’s tokens";
  useLayoutEffect(() => {
    onSaved(all.some((one) => one.head) ? textsOf(app, { run, report, onSaved }, { layer, head }, by, all) : null);
    return () => onSaved(null);
  });
  const numbers = (of: readonly number[]) => of.map((n) => [n, String(n)] as const);
  return (
    <>
      <div class="with-legend">
        <div class="toolbar">
          <Select
            label="Layer"
            help="head"
            value={layer}
            options={numbers(report.layers)}
            onChange={app.setter("layer", "merge")}
          />
          <Select
            label="Head"
            help="head"
            value={head}
            options={numbers([...Array(report.heads).keys()])}
            onChange={app.setter("head", "merge")}
          />
          <StateSelect
            help="typical"
            field="typicalby"
            options={bysOf(report, state.typicalby).map((name) => [
              name,
              name === "pattern" ? `its pattern (${onlyName(pattern || "none")})` : nameOfBy(name),
            ])}
          />
        </div>
        {bar && <ColourBar label={label} {...bar} />}
      </div>
      {problem && (
        <Notice>
          {problem.status === 404
            ? "This run keeps no texts. Start a run with “Typical texts a head” above 0."
            : problem.message}
        </Notice>
      )}
      {!problem && !examples && <StatusLine>Asking for the texts…</StatusLine>}
      {examples && (
        <StatusLine>
          {examples.length
            ? `Layer ${layer} head ${head}: the ${examples.length} texts with the largest value of “${nameOfBy(by)}”, largest first${crosses ? `; ${axes}` : ""}.`
            : "No text of this run has a value of this figure in this head."}
        </StatusLine>
      )}
      <ol class="multiples" aria-label={`Typical texts of layer ${layer} head ${head}`}>
        {all.map((one) => (
          <SmallMap
            key={`${one.example.file} ${one.example.text}`}
            of={one}
            by={by}
            shade={one.head && shadeFor(one.head)}
            ends={crosses && quantity === "attention" ? ["target ", "text "] : ["", ""]}
            onOpen={(pin) => app.go("head", { ...inputOf(run, report, one.example), layer, head, pin })}
          />
        ))}
      </ol>
    </>
  );
}

const COLUMNS = [
  ...["layer", "head", "figure", "file", "line", "value"],
  ...["i", "j", "token_i", "token_j", "strongest", "text"],
];

// A row a text, with the strongest cell of its map. The text of a decoder is the target, and its source follows.
function textsOf(app: App, { run, report }: Props, head: Selection, by: By, all: readonly Small[]): Texts {
  const decodes = all.some(({ example }) => example.source !== undefined);
  const row = ({ file, line, value, body, source }: Example, map: Head): (string | number)[] => {
    const { positions, labels, value: strongest } = strongestOf(map, by);
    return [
      ...[head.layer, head.head, by, file, line, value],
      ...[...positions, ...labels, strongest, body],
      ...(decodes ? [source ?? ""] : []),
    ];
  };
  return {
    what: "texts",
    name: `headscope-typical-${nameOf(head)}-${fileName(nameOfRun(run))}`,
    title: `headscope · ${titleOf(head)} · typical texts of ${nameOfRun(run)}`,
    provenance: { tool: "headscope", runs: [report.provenance], page: app.address.href() },
    part: ".typical",
    rows: () => [
      [...COLUMNS, ...(decodes ? ["source"] : [])],
      ...all.flatMap((one) => (one.head ? [row(one.example, one.head)] : [])),
    ],
  };
}

interface SmallMapProps {
  of: Small;
  by: By;
  shade: Shade | null;
  ends: readonly [row: string, column: string]; // before the tokens of a cell
  onOpen: (pin: readonly number[]) => void;
}

function SmallMap({ of, by, shade, ends, onOpen }: SmallMapProps) {
  const { example, entry, head } = of;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (!canvas.current || !head || !shade) return;
    const { n: width } = columnsOf(head, by);
    [canvas.current.width, canvas.current.height] = [width, head.axis.n];
    canvas.current.getContext("2d")?.putImageData(imageOf(shade.indices, width, shade.lut), 0, 0);
  });
  const strongest = head && strongestOf(head, by);
  const token = (k: 0 | 1): string => `${ends[k]}${strongest?.labels[k] ?? ""} ${strongest?.positions[k] ?? 0}`;
  const about = strongest && `strongest: ${token(0)} → ${token(1)}: ${format(strongest.value)}`;
  const words = escapeBidi(example.source === undefined ? example.body : `${example.source} → ${example.body}`);
  return (
    <li>
      <Button title="Open this text in Head" onClick={() => onOpen(head ? pinOfStrongest(head, by) : [])}>
        <canvas ref={canvas} aria-hidden="true" />
        <b>{write(by, example.value)}</b> <span class="text">{words}</span>
      </Button>
      <p class="muted">{entry.problem ? entry.problem.message : about}</p>
    </li>
  );
}
