// Starts a corpus run: of a file, dropped or chosen, or of sample texts, with the run's options.
import SAMPLE from "../../../../examples/paragraphs.txt?url";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../../app/api";
import { inWords } from "../../app/problems";
import { hasDecoder } from "../../app/stacks";
import { STACKS, type Stack } from "../../app/state";
import { useApp } from "../../ui/context";
import { Button, Field, Options, Select } from "../../ui/controls";
import type { Term } from "../../ui/explain";
import { guardOf, Guarded } from "../../ui/guarded";
import { ModelBadge } from "../../ui/precision";
import { waitNote } from "../../ui/status";
import { TYPICAL_SHOWN } from "./typical";
import { fetchFile, isAllowed, LINES, linesOf, RUN_OPTIONS, startRun, type Lines, type RunOption } from "./api";

const SAMPLE_NAME = "paragraphs.txt";
const BEGINNING = 64 << 10; // bytes that show what the lines are

const HOLDS: Record<Lines, string> = {
  "application/x-ndjson": "JSON, a line each (NDJSON)",
  "text/plain": "A text a line",
  "application/json": "A JSON array",
  "text/csv": "CSV with a column text",
  "text/tab-separated-values": "TSV with a column text",
  "application/octet-stream": "Detect automatically",
};

const TYPES = ".jsonl,.ndjson,.json,.txt,.csv,.tsv,.conllu,.gz,.zst,text/plain";

const OPTIONS: Record<RunOption, readonly [label: string, help: Term]> = {
  name: ["Name", "corpus"],
  model: ["Model", "model"],
  stack: ["Heads of", "head"],
  max_tokens: ["Tokens at most", "limit"],
  layers: ["Layers: all, last, or numbers", "head"],
  thresholds: ["Similarity thresholds", "tau"],
  examples: ["Typical texts a head", "typical"],
  label_field: ["Label field", "result"],
  effects_share: ["Share for effects", "effect"],
};

const STACK_NAMES: Record<Stack, string> = {
  encoder: "the encoder",
  decoder: "the decoder, which reads text_target",
  cross: "cross, text_target to text",
};

type Place = RunOption | "file" | "all"; // all: below the form

type WrongField = { name: string; text: string } | null;

const idOf = (place: Place): string => `run-${place}`;

function bytes(n: number): string {
  if (n < 1e3) return `${n} bytes`;
  if (n < 1e6) return `${(n / 1e3).toFixed(0)} kB`;
  return n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(2)} GB`;
}

interface Sending {
  sent: number;
  total: number;
  controller: AbortController;
}

// Takes files that are dropped anywhere on the page. Returns true while one is over it.
function useDroppedFile(onFile: (file: File | undefined) => void): boolean {
  const app = useApp();
  const [over, setOver] = useState(false);
  useEffect(() => {
    const drag = (e: DragEvent): void => {
      if (app.state.view !== "corpus" || !e.dataTransfer?.types.includes("Files")) return;
      e.preventDefault();
      setOver(e.type === "dragover");
      if (e.type === "drop") onFile(e.dataTransfer.files[0]);
    };
    const kinds = ["dragover", "dragleave", "drop"] as const;
    for (const kind of kinds) addEventListener(kind, drag);
    return () => kinds.forEach((kind) => removeEventListener(kind, drag));
  }, [app]);
  return over;
}

const Progress = ({ of: { sent, total, controller } }: { of: Sending }) => (
  <div class="sending" role="status">
    <p class="muted">
      Sending {bytes(sent)} of {bytes(total)}
    </p>
    <progress max={Math.max(1, total)} value={sent} aria-label="Sent" />
    <Button onClick={() => controller.abort()}>Cancel</Button>
  </div>
);

// Whose heads a run counts: of a model, and of one of its stacks.
interface Counted {
  model: string;
  stack: Stack;
  choose: (of: { model?: string; stack?: Stack }) => void;
}

function useCounted(): Counted {
  const { models } = useApp();
  const [chosen, setChosen] = useState<{ model?: string; stack?: Stack }>({});
  const model = chosen.model ?? models[0]?.name ?? "";
  return {
    model,
    stack: hasDecoder(model) ? (chosen.stack ?? "encoder") : "encoder",
    choose: (of) => setChosen({ ...chosen, ...of }),
  };
}

export function RunForm({ onStart }: { onStart: () => void }) {
  const app = useApp();
  const counted = useCounted();
  const [file, setFile] = useState<File | null>(null);
  const [lines, setLines] = useState<Lines>(LINES[0]);
  const [problem, setProblem] = useState<WrongField>(null);
  const [sending, setSending] = useState<Sending | null>(null);
  const form = useRef<HTMLFormElement>(null);

  const choose = async (chosen: File | null | undefined): Promise<void> => {
    if (!chosen) return;
    setFile(chosen);
    setProblem(null);
    setLines(linesOf(await chosen.slice(0, BEGINNING).text(), chosen.name));
  };
  const over = useDroppedFile((dropped) => void choose(dropped));
  const fail = (place: Place, text: string): void => {
    setProblem({ name: idOf(place), text });
    const field = form.current?.querySelector<HTMLElement>(`#${idOf(place)}`);
    field?.closest("details")?.setAttribute("open", "");
    field?.focus();
  };
  // Without a file, the texts are the sample.
  const start = async (file: File | null): Promise<void> => {
    if (!form.current) return;
    const given = new FormData(form.current);
    const options = Object.fromEntries(
      RUN_OPTIONS.map((name) => [name, ((given.get(name) as string | null) ?? "").trim()]),
    );
    options.name ||= file?.name ?? SAMPLE_NAME;
    if (!file) options.label_field = "";
    const controller = new AbortController();
    const show = (sent: number, total: number): void => setSending({ sent, total, controller });
    setProblem(null);
    try {
      const texts = file ?? (await fetchFile(SAMPLE, controller.signal));
      show(0, texts.size);
      await startRun(texts, file ? lines : "text/plain", options, controller.signal, show);
      app.announce(`Run ${options.name} has begun`, true);
      onStart();
    } catch (error) {
      if (error instanceof Problem) {
        const option = RUN_OPTIONS.find((name) => error.pointer === `/${name}`);
        const words = inWords(
          { detail: error.message, pointer: error.pointer },
          option && OPTIONS[option][0].replace(/:.*/, ""),
        );
        fail(option ?? "all", [words, waitNote(error)].filter(Boolean).join(" "));
      } else if (!controller.signal.aborted) throw error;
    } finally {
      setSending(null);
    }
  };
  const option = (name: RunOption, value: string, placeholder = value) => (
    <Guarded name={idOf(name)} problem={problem}>
      <Field label={OPTIONS[name][0]} help={OPTIONS[name][1]}>
        <input
          id={idOf(name)}
          name={name}
          inputMode={name === "max_tokens" ? "numeric" : undefined}
          defaultValue={value}
          placeholder={placeholder}
          spellcheck={false}
          autocomplete="off"
          disabled={!isAllowed(name, counted.stack)}
          {...guardOf(idOf(name), problem)}
        />
      </Field>
    </Guarded>
  );
  return (
    <form
      class={`run-form card${over ? " over" : ""}`}
      aria-label="New run"
      noValidate
      ref={form}
      onSubmit={(e) => {
        e.preventDefault();
        if (file) void start(file);
        else fail("file", "Choose the file that holds the texts, one a line.");
      }}
    >
      <h2>New run</h2>
      <Guarded name={idOf("file")} problem={problem}>
        <label class="drop">
          <input
            id={idOf("file")}
            type="file"
            accept={TYPES}
            onChange={(e) => void choose(e.currentTarget.files?.[0])}
            {...guardOf(idOf("file"), problem)}
          />
          <span>
            <strong>Drop a file</strong> here, or choose one
          </span>
          <span class="chosen">{file && `${file.name} · ${bytes(file.size)}`}</span>
        </label>
      </Guarded>
      <p class="muted">
        No file at hand?{" "}
        <Button
          class="link"
          disabled={sending !== null || counted.stack !== "encoder"}
          onClick={() => void start(null)}
        >
          Run the sample
        </Button>
        , 243 paragraphs from the documents of this program.
        {counted.stack !== "encoder" && " They have no targets for a decoder to read."}
      </p>
      <div class="badged">
        <OptionSelect
          name="model"
          value={counted.model}
          options={app.models.map(({ name }) => [name, name])}
          problem={problem}
          onChoose={(model) => counted.choose({ model })}
        />
        <ModelBadge name={counted.model} />
      </div>
      {hasDecoder(counted.model) && (
        <OptionSelect
          name="stack"
          value={counted.stack}
          options={STACKS.map((stack) => [stack, STACK_NAMES[stack]])}
          problem={problem}
          onChoose={(stack) => counted.choose({ stack })}
        />
      )}
      <details class="disclosure">
        <summary>Options</summary>
        <div class="options">
          <Select
            label="The file holds"
            help="corpus"
            value={lines}
            options={LINES.map((type) => [type, HOLDS[type]] as const)}
            onChange={setLines}
          />
          {option("name", "", file?.name ?? "the file’s name")}
          {option("max_tokens", "", "model’s")}
          {option("examples", String(TYPICAL_SHOWN))}
          {option("layers", "all")}
          {option("thresholds", "0.1,0.2,0.3,0.4,0.5")}
          {option("label_field", "", "label")}
          {option("effects_share", "", "0")}
          {!isAllowed("label_field", counted.stack) && (
            <p class="muted">
              Labels and effects need heads of the encoder: its states decide the model’s class of a text.
            </p>
          )}
        </div>
      </details>
      <Guarded name={idOf("all")} problem={problem}>
        <div class="submit">
          <button type="submit" class="primary" id={idOf("all")} disabled={sending !== null}>
            Start the run
          </button>
        </div>
      </Guarded>
      {sending && <Progress of={sending} />}
    </form>
  );
}

function OptionSelect<T extends string>(props: {
  name: "model" | "stack";
  value: T;
  options: readonly (readonly [value: T, name: string])[];
  problem: WrongField;
  onChoose: (value: T) => void;
}) {
  const { name, problem } = props;
  const [label, help] = OPTIONS[name];
  const id = idOf(name);
  return (
    <Guarded name={id} problem={problem}>
      <Field label={label} help={help}>
        <select
          id={id}
          name={name}
          value={props.value}
          onChange={(e) => props.onChoose(e.currentTarget.value as T)}
          {...guardOf(id, problem)}
        >
          <Options of={props.options} />
        </select>
      </Field>
    </Guarded>
  );
}
