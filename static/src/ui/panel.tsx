// The bar under the tabs: the text to analyse and its model. Two menus have the options of the text, and those of the
// display, which every view follows.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Answer } from "../app/answer";
import { escapeBidi } from "../app/bidi";
import { embedded } from "../app/embed";
import { EXAMPLES } from "../app/examples";
import { FileCard, OpenButton } from "../opened/open-file";
import { fieldOf, inWords, type FieldName } from "../app/problems";
import { canContinue, hasDecoder, stackOf } from "../app/stacks";
import { fieldOf as stateField, WRITTEN_MOST, type State } from "../app/state";
import { hasSimilarities, isFile } from "../app/sources";
import { keep, kept } from "../app/storage";
import { isOfText } from "../app/views";
import { tokenAxisOf } from "../maps/axis";
import { classes } from "./classes";
import { useApp } from "./context";
import { Field, isSubmit, Options, Toggle } from "./controls";
import { StateSelect, StateSlider, StateToggle } from "./state-controls";
import { Terms } from "./explain";
import { guardOf, Guarded } from "./guarded";
import { Languages } from "./languages";
import { ModelsButton } from "./models";
import { useMenu } from "./menu";
import { ModelBadge } from "./precision";
import { PromptSelect } from "./prompt-select";
import { WindowSteps } from "./windows";
import { TaskCard } from "./task-result";

export function Panel() {
  const app = useApp();
  const { state } = app;
  const hidden = embedded || !isOfText(state.view);
  return (
    <section class="panel" aria-labelledby="panel-title" hidden={hidden}>
      <h2 class="hidden" id="panel-title">
        Text and options
      </h2>
      <div class="input">
        {isFile(state.model) ? (
          <>
            <FileCard />
            <OpenButton />
            <DisplayMenu hidden={hidden} />
          </>
        ) : (
          <TextForm hidden={hidden} />
        )}
      </div>
      {!hidden && <TaskCard of={app.overview().answer} />}
    </section>
  );
}

// A menu of the bar. It opens by itself when `needed` becomes true.
function PanelMenu(props: {
  name: string;
  label: string;
  class?: string;
  needed: boolean;
  children: ComponentChildren;
}) {
  const { menu, onKeyDown } = useMenu();
  useEffect(() => {
    if (props.needed && menu.current) menu.current.open = true;
  }, [props.needed]);
  return (
    <details class={classes("menu", props.class)} ref={menu} onKeyDown={onKeyDown}>
      <summary title={props.label}>{props.name}</summary>
      <div class="sheet fields" role="group" aria-label={props.label}>
        {props.children}
      </div>
    </details>
  );
}

function useProblem(hidden: boolean): { name: FieldName; text: string } | null {
  const app = useApp();
  const problem = hidden ? null : app.overview().problem;
  const name = problem && fieldOf(problem.pointer);
  return name && { name, text: inWords(problem) };
}

const DRAFT = "headscope-draft"; // in the session: a reload keeps what was typed

function keptDraft(key: string): Draft | null {
  const [of, draft] = JSON.parse(kept("sessionStorage", DRAFT) ?? "[]") as [string?, Draft?];
  return of === key && draft ? draft : null;
}

type Refused = NonNullable<ReturnType<typeof useProblem>>;
const INPUT = [
  "text",
  "pair",
  "target",
  "write",
  "lang",
  "tlang",
  "stack",
  "max",
  "window",
  "literal",
  "model",
  "prompt",
  "center",
] as const;
type Input = Pick<State, (typeof INPUT)[number]>;
const inputOf = (state: State): Input =>
  Object.fromEntries(INPUT.map((field) => [field, state[field]])) as unknown as Input;

// Typed input that is not analysed yet.
interface Draft {
  text: string;
  pair: string;
  target: string;
  write: string;
  max: string;
  literal: boolean;
}

const countOf = (count: number): string => (count ? String(count) : "");
const draftOf = ({ text, pair, target, write, max, literal }: Input): Draft => ({
  ...{ text, pair, target, write: countOf(write), max: countOf(max), literal },
});

// The typed input, and what analyses it. Input that the server refuses stays in the form; the result on screen stays
// that of the input before.
function useDraft(hidden: boolean) {
  const app = useApp();
  const { state } = app;
  const committed = draftOf(state);
  const key = JSON.stringify(committed);
  const first = useState(() => keptDraft(key) ?? committed)[0];
  const last = useRef({ key, draft: first });
  if (last.current.key !== key) last.current = { key, draft: committed };
  const { draft } = last.current;
  const answered = useProblem(hidden);
  const [refused, setRefused] = useState<Refused | null>(null);
  const good = useRef<Input | null>(null);
  const isGood = !hidden && app.overview().answer !== null;
  useLayoutEffect(() => {
    if (isGood) good.current = inputOf(state);
    else if (answered && answered.name !== "tlang" && good.current?.stack === state.stack) {
      // A model that lacks the language of the target stays: its languages are those to choose from.
      last.current = { key: JSON.stringify(draftOf(good.current)), draft };
      setRefused(answered);
      app.set(good.current);
    }
  });
  const edit = (patch: Partial<Draft>): void => {
    last.current.draft = { ...last.current.draft, ...patch };
    keep("sessionStorage", DRAFT, JSON.stringify([key, last.current.draft]));
    app.draw();
  };
  const analyse = (
    chosen: Partial<Pick<State, "model" | "prompt" | "stack" | "write" | "lang" | "tlang" | "edits">> = {},
  ): void => {
    const { draft } = last.current;
    const { model, prompt, stack, lang, tlang } = state;
    const counts = { write: Math.min(WRITTEN_MOST, Number(draft.write)), max: Number(draft.max) }; // an empty field: 0
    const next = { model, prompt, stack, lang, tlang, ...draft, ...counts, sha: "", window: -1, ...chosen };
    const same = (["text", "pair", "target", "write", "lang", "tlang", "stack", "prompt"] as const).every(
      (field) => next[field] === state[field],
    );
    setRefused(null);
    edit({ write: countOf(next.write), max: countOf(next.max) });
    if (same) app.set(next, true);
    else app.read(next);
  };
  return { draft, waiting: JSON.stringify(draft) !== key, problem: refused ?? answered, edit, analyse };
}

function TextForm({ hidden }: { hidden: boolean }) {
  const app = useApp();
  const { state, models } = app;
  const of = useDraft(hidden);
  const { draft, waiting, problem, edit, analyse } = of;
  const onKeyDown = (e: KeyboardEvent): void => {
    if (isSubmit(e)) analyse();
  };
  const onSubmit = (e: Event): void => {
    e.preventDefault();
    analyse();
  };
  return (
    <form onSubmit={onSubmit} onKeyDown={onKeyDown}>
      <div class="line">
        <Guarded name="text" problem={problem}>
          <Field label="Text" class="bare">
            <TextLine
              value={draft.text}
              analysed={state.text}
              onInput={(text) => edit({ text })}
              refused={guardOf("text", problem)}
            />
          </Field>
        </Guarded>
        <div class="joined" role="toolbar" aria-label="Analysis">
          <button type="submit" class={`primary${waiting ? " waiting" : ""}`} title="Ctrl ↵">
            Analyse
          </button>
          <select
            aria-label="Examples"
            class="examples"
            value=""
            onChange={(e) => {
              const example = EXAMPLES[Number(e.currentTarget.value)];
              if (!example) return;
              edit({ text: example.text, pair: example.pair ?? "" });
              analyse();
            }}
          >
            <option value="">Examples…</option>
            <Options of={EXAMPLES.map(({ name }, n) => [n, name])} />
          </select>
          <div class="badged">
            <Guarded name="model" problem={problem}>
              <Field label="Model" class="bare">
                <select
                  id="model"
                  title="Model"
                  value={app.modelName()}
                  onChange={(e) => analyse({ model: e.currentTarget.value, prompt: "" })}
                  {...guardOf("model", problem)}
                >
                  <Options of={models.map(({ name }) => [name, name])} />
                </select>
              </Field>
            </Guarded>
            <ModelBadge />
          </div>
          <TextMenu of={of} />
          <DisplayMenu hidden={hidden} />
        </div>
      </div>
      <StackFields of={of} />
      <PromptSelect value={state.prompt} onChange={(prompt) => analyse({ prompt })} />
      <div class="facts-line muted">
        {waiting && <strong role="status">Not analysed yet</strong>}
        <span role="status" aria-label="Analysed text">
          {!hidden && <AnswerFacts of={app.overview().answer} />}
        </span>
        {state.pair && <span class="second">Second segment: {escapeBidi(state.pair)}</span>}
        {!hidden && <WindowSteps />}
      </div>
    </form>
  );
}

const GROWN = 0.5; // of the window, at most

// One line. It grows over the view while it is edited, until it is analysed.
function TextLine(props: {
  value: string;
  analysed: string;
  onInput: (text: string) => void;
  refused: ReturnType<typeof guardOf>;
}) {
  const box = useRef<HTMLTextAreaElement>(null);
  const [edited, setEdited] = useState(false);
  useEffect(() => setEdited(false), [props.analysed]);
  useLayoutEffect(() => {
    const { current } = box;
    if (!current) return;
    current.style.height = "";
    if (edited) current.style.height = `${Math.min(current.scrollHeight + 2, innerHeight * GROWN)}px`;
    else current.scrollTop = 0;
  }, [edited, props.value]);
  return (
    <textarea
      id="text"
      ref={box}
      rows={1}
      dir="auto"
      spellcheck={false}
      value={props.value}
      onFocus={() => setEdited(true)}
      onPointerDown={() => setEdited(true)}
      onBlur={() => setEdited(false)}
      onInput={(e) => {
        setEdited(true);
        props.onInput(e.currentTarget.value);
      }}
      {...props.refused}
    />
  );
}

type Edited = ReturnType<typeof useDraft>;

interface DraftProps {
  label: string;
  placeholder?: string;
  of: Edited;
}

function DraftText({ name, label, placeholder, of }: DraftProps & { name: "pair" | "target" }) {
  return (
    <Guarded name={name} problem={of.problem}>
      <Field label={label}>
        <textarea
          id={name}
          rows={3}
          dir="auto"
          spellcheck={false}
          placeholder={placeholder}
          value={of.draft[name]}
          onInput={(e) => of.edit({ [name]: e.currentTarget.value })}
          {...guardOf(name, of.problem)}
        />
      </Field>
    </Guarded>
  );
}

type CountProps = DraftProps & { name: "max" | "write"; min: number; max?: number; title?: string };

function DraftCount({ name, label, of, ...props }: CountProps) {
  return (
    <Guarded name={name} problem={of.problem}>
      <Field label={label}>
        <input
          {...props}
          id={name}
          type="number"
          inputMode="numeric"
          value={of.draft[name]}
          onInput={(e) => of.edit({ [name]: e.currentTarget.value })}
          {...guardOf(name, of.problem)}
        />
      </Field>
    </Guarded>
  );
}

// Few texts need these: a second segment, how many tokens are read, other models, files.
function TextMenu({ of }: { of: Edited }) {
  const app = useApp();
  const { draft, problem, edit } = of;
  return (
    <PanelMenu name="Text…" label="Text options" needed={problem?.name === "pair" || problem?.name === "max"}>
      <DraftText name="pair" label="Second segment" of={of} />
      <Toggle
        label="Treat [MASK] as ordinary text"
        title="split_special_tokens: special tokens written in the text are not recognised"
        on={draft.literal}
        onChange={(literal) => edit({ literal })}
      />
      <DraftCount
        name="max"
        label="Tokens at most"
        min={2}
        placeholder="model’s"
        title="Left empty: 128, or as many as the model takes"
        of={of}
      />
      <button type="submit">Apply</button>
      <p class="more-inputs">
        <ModelsButton />
        <OpenButton />
        <Terms
          of={["limit", "model", "literal", "prompt", ...(hasDecoder(app.modelName()) ? (["stack"] as const) : [])]}
        />
      </p>
    </PanelMenu>
  );
}

const WRITTEN_AT_FIRST = 30; // tokens, once the decoder is chosen without a target

// Whose heads are shown, the target that the decoder reads, and how much the model writes. Nothing for other models.
function StackFields({ of }: { of: Edited }) {
  const app = useApp();
  const { draft, problem, analyse } = of;
  const stack = stackOf(app.state);
  const reads = stack !== "encoder"; // a target
  const model = app.modelName();
  if (!hasDecoder(model) && !canContinue(model)) return null;
  return (
    <div class="line" role="toolbar" aria-label="What is read and written">
      {hasDecoder(model) && (
        <Field label="Heads of">
          <select
            id="stack"
            value={stack}
            onChange={(e) => {
              const next = e.currentTarget.value as State["stack"];
              const writes = next !== "encoder" && !draft.target && !Number(draft.write);
              // Changes of heads were of the stack before.
              analyse({ stack: next, edits: [], ...(writes ? { write: WRITTEN_AT_FIRST } : {}) });
            }}
          >
            <Options of={(stateField("stack")?.choices ?? []).map(({ value, label }) => [value, label])} />
          </select>
        </Field>
      )}
      {reads && <DraftText name="target" label="Target text" placeholder="Empty: the model writes it" of={of} />}
      <Languages problem={problem} onChange={analyse} />
      {(reads ? !draft.target : canContinue(model)) && (
        <DraftCount
          name="write"
          label={`Let the model ${reads ? "write it" : "continue"}: tokens at most`}
          min={0}
          max={WRITTEN_MOST}
          placeholder="0"
          of={of}
        />
      )}
    </div>
  );
}

function AnswerFacts({ of }: { of: Answer | null }) {
  if (!of) return null;
  const ms = Object.values(of.timing).reduce((a, b) => a + b, 0);
  const written = of.encoding.generated.filter(Boolean).length;
  const unknown = tokenAxisOf(of.encoding).unknown.filter(Boolean).length;
  return (
    <>
      {of.encoding.ids.length} tokens
      {written > 0 && ` (${written} written by the model)`}
      {of.source && ` of the target × ${of.source.ids.length} of the text`}
      {of.truncated && <strong> (cut)</strong>}
      {unknown > 0 && <strong> · {unknown} unknown</strong>}
      {` · ${of.layers.length} × ${of.heads.length} heads`}
      {ms > 0 && ` · ${ms.toFixed(0)} ms`}
    </>
  );
}

function DisplayMenu({ hidden }: { hidden: boolean }) {
  const app = useApp();
  const problem = useProblem(hidden);
  return (
    <PanelMenu
      name="Display…"
      label="Display options"
      class="display"
      needed={problem?.name === "tau" || problem?.name === "atau"}
    >
      <Guarded name="tau" problem={problem}>
        <StateSlider field="tau" />
      </Guarded>
      <Guarded name="atau" problem={problem}>
        <StateSlider field="atau" />
      </Guarded>
      <Toggle
        label="Hide special tokens"
        title="[CLS] and [SEP] hidden and left out of every figure"
        on={!app.state.special}
        onChange={(on) => app.set({ special: !on })}
      />
      <StateToggle field="words" />
      {hasSimilarities(app.state) && <StateToggle field="center" />}
      <StateToggle field="positions" />
      <StateSelect field="map" />
      <p class="more-inputs">
        <Terms of={["tau", "special", "pieces", "centred", "atau", "positions", "palette"]} />
      </p>
    </PanelMenu>
  );
}
