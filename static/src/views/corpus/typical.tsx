// Small multiples: one head on the texts of a run that are most typical of it, each as a small map that leads to its
// analysis.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { CorpusExamples } from "../../../../build/openapi";
import { asProblem, type Problem } from "../../app/api";
import type { App } from "../../app/app";
import { escapeBidi } from "../../app/bidi";
import type { Entry } from "../../app/cache";
import { headRequest, type Requested } from "../../app/requests";
import { FIGURES, onlyName } from "../../heads/figures";
import { nameOf, titleOf, type Selection } from "../../app/selection";
import type { State } from "../../app/state";
import { headsOf } from "../../heads/heads";
import type { Head } from "../../maps/analysis";
import { ColourBar } from "../../maps/colour-bar";
import { imageOf } from "../../maps/colour";
import { format, maximumOf, percent } from "../../maps/scale";
import { shadeOf, type Shade } from "../../maps/shade";
import type { Exportable } from "../../saving/export";
import { useApp } from "../../ui/context";
import { StatusLine } from "../../ui/status";
import { Button, Select } from "../../ui/controls";
import { StateDisclosure, StateSelect } from "../../ui/state-controls";
import { loadExamples, type Report, type Run } from "./api";
import { runHeads, type Head as Profiled } from "./patterns";
import { fileName, nameOfRun } from "./names";
import { TYPICAL_BYS, type TypicalBy } from "./state";

export const TYPICAL_SHOWN = 12;

type Example = CorpusExamples["examples"][number];
type By = Exclude<TypicalBy, "pattern">;

const SYNTAX = { syntax_attention: "Syntactic heads by attention", syntax_similarity: "Syntactic heads by similarity" };
const isSyntax = (by: By): by is keyof typeof SYNTAX => by in SYNTAX;
const nameOfBy = (by: By): string => (isSyntax(by) ? SYNTAX[by] : FIGURES[by].name);
const write = (by: By, value: number): string => (isSyntax(by) ? percent(value) : FIGURES[by].write(value));

// Figures of attention; the others are of similarity, and the map shown is that of the figure.
const OF_ATTENTION: readonly By[] = ["separator_attention", "self", "previous", "next", "first", "syntax_attention"];

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

// The text as the run took it.
function inputOf({ model = "" }: Run, { provenance }: Report, { body }: Example): Partial<State> {
  const { max_tokens, split_special_tokens, prompt_name, center } = provenance.options;
  return {
    text: body,
    pair: "",
    ...{ stack: "encoder", target: "", write: 0 }, // those of decoders are not drawn
    prompt: `=${prompt_name ?? ""}`,
    model,
    max: max_tokens,
    window: -1,
    literal: Boolean(split_special_tokens),
    center: center === "text",
  };
}

function requestedOf({ state }: App, run: Run, report: Report, example: Example): Requested {
  const { interventions } = report.provenance.options;
  return {
    ...state,
    ...inputOf(run, report, example),
    ...(interventions?.length ? { interventions: interventions as NonNullable<Requested["interventions"]> } : {}),
  };
}

interface Small {
  example: Example;
  entry: Entry;
  head: Head | null;
}

// Normalised, so that the maps of several texts compare.
const valuesOf = (head: Head, by: By): Float32Array => (OF_ATTENTION.includes(by) ? head.attention : head.normalized);

// The strongest cell, a row and a column, and its value; of similarity, which is symmetric, its first.
function strongestOf(head: Head, by: By): { cell: [number, number]; value: number } {
  const values = valuesOf(head, by);
  const { n } = head.axis;
  const at = Math.max(0, values.indexOf(maximumOf(values)));
  return { cell: [Math.floor(at / n), at % n], value: values[at] ?? NaN };
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
        {report.provenance.options.stack === "decoder" ? (
          <p class="notice">
            Maps of a decoder need the text that the encoder reads, which the list of typical texts does not hold. The
            report’s examples have both texts and open in Head.
          </p>
        ) : (
          <Multiples run={run} report={report} onSaved={onSaved} />
        )}
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
    const entry = app.cache.want(headRequest(requestedOf(app, run, report, example), layer, head));
    return { example, entry, head: entry.answer && headsOf(app).exactHead(entry.answer) };
  });
  const reach = all.flatMap((one) => (one.head ? [valuesOf(one.head, by)] : []));
  const quantity = OF_ATTENTION.includes(by) ? "attention" : "similarity";
  const shadeFor = (one: Head): Shade => shadeOf(valuesOf(one, by), one.axis.n, quantity, { ...state, theme }, reach);
  const bar = reach[0] ? shadeOf(reach[0], Math.sqrt(reach[0].length), quantity, { ...state, theme }, reach) : null;
  const label = quantity === "attention" ? "Attention A" : "Normalised similarity N";
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
            options={TYPICAL_BYS.map((name) => [
              name,
              name === "pattern" ? `its pattern (${onlyName(pattern || "none")})` : nameOfBy(name),
            ])}
          />
        </div>
        {bar && <ColourBar label={label} {...bar} />}
      </div>
      {problem && (
        <p class="notice" role="status">
          {problem.status === 404
            ? "This run keeps no texts. Start a run with “Typical texts a head” above 0."
            : problem.message}
        </p>
      )}
      {!problem && !examples && <StatusLine>Asking for the texts…</StatusLine>}
      {examples && (
        <StatusLine>
          {examples.length
            ? `Layer ${layer} head ${head}: the ${examples.length} texts with the largest value of “${nameOfBy(by)}”, largest first.`
            : "No text of this run has a value of this figure."}
        </StatusLine>
      )}
      <ol class="multiples" aria-label={`Typical texts of layer ${layer} head ${head}`}>
        {all.map((one) => (
          <SmallMap
            key={`${one.example.file} ${one.example.text}`}
            of={one}
            by={by}
            shade={one.head && shadeFor(one.head)}
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

// A row a text, with the strongest cell of its map.
function textsOf(app: App, { run, report }: Props, head: Selection, by: By, all: readonly Small[]): Texts {
  const row = ({ file, line, value, body }: Example, map: Head): (string | number)[] => {
    const { cell, value: strongest } = strongestOf(map, by);
    const { positions, labels } = map.axis;
    return [
      ...[head.layer, head.head, by, file, line, value],
      ...cell.map((t) => positions[t] ?? t),
      ...cell.map((t) => labels[t] ?? ""),
      ...[strongest, body],
    ];
  };
  return {
    what: "texts",
    name: `headscope-typical-${nameOf(head)}-${fileName(nameOfRun(run))}`,
    title: `headscope · ${titleOf(head)} · typical texts of ${nameOfRun(run)}`,
    provenance: { tool: "headscope", runs: [report.provenance], page: app.address.href() },
    part: ".typical",
    rows: () => [COLUMNS, ...all.flatMap((one) => (one.head ? [row(one.example, one.head)] : []))],
  };
}

function SmallMap(props: { of: Small; by: By; shade: Shade | null; onOpen: (pin: readonly number[]) => void }) {
  const { example, entry, head } = props.of;
  const { shade, by } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (!canvas.current || !head || !shade) return;
    canvas.current.width = canvas.current.height = head.axis.n;
    canvas.current.getContext("2d")?.putImageData(imageOf(shade.indices, head.axis.n, shade.lut), 0, 0);
  });
  const strongest = head && strongestOf(head, by);
  const token = (t: number): string => `${head?.axis.labels[t] ?? ""} ${head?.axis.positions[t] ?? t}`;
  const about = strongest && `strongest: ${strongest.cell.map(token).join(" → ")}: ${format(strongest.value)}`;
  const words = escapeBidi(example.body);
  return (
    <li>
      <Button
        title="Open this text in Head"
        onClick={() => props.onOpen(strongest?.cell.map((t) => head?.axis.groups[t]?.[0] ?? 0) ?? [])}
      >
        <canvas ref={canvas} aria-hidden="true" />
        <b>{write(by, example.value)}</b> <span class="text">{words}</span>
      </Button>
      <p class="muted">{entry.problem ? entry.problem.message : about}</p>
    </li>
  );
}
