// Change heads and see the result: predictions, tokens, every head's maps, before and after.
import { useMemo } from "preact/hooks";
import type { Changes } from "../../../../build/openapi";
import { predictsNext, type Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { MASKED } from "../../app/examples";
import type { Choice } from "../../app/fields";
import { nameOf } from "../../app/selection";
import { isCross } from "../../app/stacks";
import { fieldOf, type State } from "../../app/state";
import type { Axis } from "../../maps/analysis";
import { axisOf, entryOf } from "../../maps/axis";
import { lutOf } from "../../maps/colour";
import { ColourBar } from "../../maps/colour-bar";
import { linearBar } from "../../maps/linear";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Button, Field, Input, Select } from "../../ui/controls";
import { StateSegmented, StateSelect } from "../../ui/state-controls";
import { statusOf } from "../../ui/status";
import { Toolbar } from "../../ui/toolbar";
import { taskOf } from "../../ui/task-result";
import { EffectsProgress, effectsOf, type Effects } from "../../passes/effects";
import { estimatesOf, type Estimates } from "../../passes/estimates";
import { change, inWords, release, toggled, toggledLayer, type Edit } from "../../passes/interventions";
import { computeExactly, EstimateKey, EstimateNote, exactHeads, ExactToggle } from "./estimated";
import { Lens, readings } from "./lens";
import { ExperimentMaps } from "./maps";
import { atOf, changedState, editsWithin, mostOf, TaskChange, useOutcome, type Outcome } from "../../passes/outcome";
import { PredictionCards } from "../../passes/prediction-card";
import { RankedHeads, RankedTokens } from "./ranks";
import { experimentExport } from "./saved";
import { FACTOR_MOST } from "./state";
import { HeadSwitches } from "./switches";
import { TokenStrip, type TokenTint } from "../../passes/token-strip";
import { followedOf } from "../../passes/followed";
import type { Target } from "../../passes/target";
import { isEffect, tintOf, TONE_ABOUT, tonesOf, valuesOf, type HeadTint, type Tone } from "../../passes/tones";

const NO_CHANGE = "None. A change in the last layer changes no map but its own.";
const CARDS = 3; // masks shown at once

// The intervention that a click makes.
function clickOf({ state }: App): Pick<Edit, "kind" | "factor"> {
  const { kind, factor } = state;
  return { kind, factor: kind === "scale" ? factor : 0 };
}

const toggle = (app: App, layer: number, head: number): void =>
  change(app, toggled(app.state.edits, { ...clickOf(app), layer, head }));

// With a change, the maps below show the head before and after it.
function open(app: App, layer: number, head: number): void {
  if (!app.state.edits.length) return app.open(layer, head);
  app.set({ layer, head, pin: [] }, true);
  document.getElementById("experiment-maps")?.scrollIntoView({ block: "start", behavior: "smooth" });
}

// Chooses the token to predict, or releases it.
function choose(app: App, axis: Axis, entry: number): void {
  const at = axis.groups[entry]?.[0] ?? -1;
  app.set({ at: at === app.state.at ? -1 : at });
}

export function ExperimentView() {
  const app = useApp();
  const entry = app.overview();
  const { answer } = entry;
  // The interventions on heads that the model has.
  const edits = answer ? editsWithin(app, answer) : [];
  return (
    <section class="view experiment" aria-label="Experiment">
      <Kinds edits={edits} />
      {statusOf(app, entry)}
      {answer && <Body answer={answer} edits={edits} />}
    </section>
  );
}

// No token of the target is one of the text.
const CROSS_KINDS = (fieldOf("kind")?.choices ?? []).filter(({ value }) => value !== "identity") as Choice<
  State["kind"]
>[];

function Kinds({ edits }: { edits: readonly Edit[] }) {
  const app = useApp();
  const { kind, factor } = app.state;
  return (
    <Toolbar terms={["change"]}>
      <StateSegmented field="kind" {...(isCross(app.state) ? { choices: CROSS_KINDS } : {})} />
      {kind === "scale" && (
        <Field label="Factor" class="factor">
          <Input
            type="number"
            step={0.1}
            min={-FACTOR_MOST}
            max={FACTOR_MOST}
            value={String(factor)}
            onInput={(e) => {
              const value = e.currentTarget.valueAsNumber;
              if (Math.abs(value) <= FACTOR_MOST) app.set({ factor: value });
            }}
          />
        </Field>
      )}
      <Button disabled={!edits.length} onClick={() => release(app)}>
        Release all
      </Button>
      <p class="edits" role="status" aria-label="Changes">
        {edits.length ? inWords(edits) : "Nothing is changed yet"}
      </p>
    </Toolbar>
  );
}

function Body({ answer, edits }: { answer: Answer; edits: readonly Edit[] }) {
  const app = useApp();
  const { state, theme } = app;
  const axis = useMemo(() => axisOf(answer.encoding, state), [answer, state.special, state.words]);
  const most = mostOf(app);
  const at = atOf(app, answer);
  const { outcome, waiting } = useOutcome(edits, at);
  const task = taskOf(app);
  const target = followedOf(app, answer, task?.answer ?? null, outcome?.before.predictions);
  const ready = !task || task.status !== "loading"; // the result decides what is followed
  const tones = tonesOf(most > 0, target);
  const tone = toneOf(app, edits, ready ? outcome : null, target, tones);
  const position = most ? at : null;
  const estimates =
    tone === "target_change" && ready && target
      ? estimatesOf(app, answer, position, target, state.exactly ? "all" : exactHeads(app, answer))
      : null;
  const effects = estimates
    ? estimates.exact
    : isEffect(tone) && ready
      ? effectsOf(app, answer, position, target)
      : null;
  const rows = (estimates ?? effects)?.rows ?? null;
  const values = valuesOf(tone, outcome?.after?.changes, rows, answer.heads.length);
  const tint = values && tintOf(tone, values, state.map, theme, rows);
  const moved = movedTokens(app, outcome?.after?.changes, axis);
  const selection = app.selection(answer);
  useExport(() => {
    if (!outcome) return null;
    const lens = state.lens ? readings(app, outcome, edits).flatMap((entry) => entry.answer?.predictions ?? []) : [];
    const parts = { answer, outcome, selection, tint, lens };
    return experimentExport(app, parts, changedState(app, edits), { at, most }, `experiment-${nameOf(selection)}`);
  });
  return (
    <>
      {statusOf(app, waiting, outcome !== null)}
      <div class="experiment-body" aria-busy={waiting !== null}>
        <div class="lab">
          <HeadLab {...{ answer, edits, estimates, effects, target, tone, tones, tint }} />
          <section class="lab-tokens" aria-label="Predictions">
            <TokenStrip
              label={
                predictsNext(answer) ? "Tokens: choose the one to predict after" : "Tokens: choose the one to predict"
              }
              axis={axis}
              chosen={(outcome?.before.predictions ?? []).map(({ position }) => entryOf(axis, position))}
              tint={moved && moved.tint}
              onChoose={(t) => choose(app, axis, t)}
            />
            {moved && <DepthControl answer={answer} depth={moved.depth} tint={moved.tint} />}
            <TaskChange answer={answer} edits={edits} />
            <Predictions answer={answer} outcome={outcome} most={most} />
          </section>
        </div>
        <div class="ranks">
          {tint && (
            <RankedHeads
              tint={tint}
              title={TONE_ABOUT[tone].title}
              none={isEffect(tone) ? "None: all are 0." : NO_CHANGE}
              busy={waiting !== null}
              edits={edits}
              onOpen={(layer, head) => open(app, layer, head)}
              onToggle={(layer, head) => toggle(app, layer, head)}
              onCompute={(layer, head) => computeExactly(app, layer, head)}
            />
          )}
          {moved && (
            <RankedTokens
              axis={axis}
              values={moved.tint.values}
              layer={moved.depth}
              onChoose={(t) => choose(app, axis, t)}
            />
          )}
        </div>
        {outcome?.before.predictions?.[0] && <Lens answer={answer} outcome={outcome} edits={edits} />}
        <ExperimentMaps edits={edits} selection={selection} changed={changedState(app, edits)} />
      </div>
    </>
  );
}

// The chosen colours, if this model and text have them. By default the effect of each head alone, and the change once heads
// are changed.
function toneOf(
  { state }: App,
  edits: readonly Edit[],
  outcome: Outcome | null,
  target: Target | null,
  tones: readonly Tone[],
): Tone {
  if (state.tone !== "auto" && tones.includes(state.tone)) return state.tone;
  if (edits.length || !outcome) return "similarities";
  return target ? "target_change" : "hidden_change";
}

function HeadLab(props: {
  answer: Answer;
  edits: readonly Edit[];
  estimates: Estimates | null;
  effects: Effects | null;
  target: Target | null;
  tone: Tone;
  tones: readonly Tone[];
  tint: HeadTint | null;
}) {
  const app = useApp();
  const { answer, edits, estimates, effects, target, tone, tones, tint } = props;
  const toggleLayer = (layer: number): void =>
    change(app, toggledLayer(app.state.edits, answer.heads.length, { ...clickOf(app), layer }));
  const ofResult = target !== null && tone === "target_change";
  const blank = effects && !effects.next && tint?.values.flat().every((v) => v === null);
  return (
    <section class="lab-heads" aria-label="Heads">
      <div class="toolbar">
        <Select
          label="Heads coloured by"
          help="effect"
          value={tone}
          onChange={app.setter("tone")}
          options={tones.map((value) => [value, TONE_ABOUT[value].name] as const)}
        />
        {ofResult && target.labels.length > 0 && (
          <StateSelect
            label="Class watched"
            help="result"
            field="watched"
            options={[["", "the predicted one"], ...target.labels.map((label) => [label, label] as const)]}
          />
        )}
        {estimates && <ExactToggle of={estimates} />}
        {tint?.values.flat().some((value) => value) && <ColourBar {...tint.bar} />}
        {estimates?.rows.flat().some((effect) => effect?.estimated) && <EstimateKey />}
      </div>
      {ofResult && <p class="muted caption">Watched: {target.words}. Heads below 0 had raised it.</p>}
      <HeadSwitches
        layers={answer.layers.length}
        heads={answer.heads.length}
        edits={edits}
        tint={tint}
        chosen={app.selection(answer)}
        onToggle={(layer, head) => toggle(app, layer, head)}
        onToggleLayer={toggleLayer}
        onShow={(layer, head) => open(app, layer, head)}
      />
      {effects && <EffectsProgress of={effects} />}
      {estimates && <EstimateNote of={estimates} />}
      <p class="muted caption">
        {blank &&
          (tone === "logprob_change"
            ? "This needs a token that is not masked: choose one in the text. "
            : "This needs a token that is predicted: choose one in the text. ")}
        <span class="how">
          Click a head to change it, L3 to change its whole layer. Shift and click shows its maps.
        </span>
      </p>
    </section>
  );
}

// The change of each token's state after the chosen layer; null if nothing is changed.
function movedTokens(
  { state, theme }: App,
  changes: Changes | undefined,
  { groups }: Axis,
): { tint: TokenTint; depth: number } | null {
  if (!changes) return null;
  const last = changes.hidden.length - 2;
  const depth = state.depth < 0 ? last : Math.min(state.depth, last);
  const moved = changes.hidden[depth + 1] ?? [];
  const values = groups.map((group) => group.reduce((sum, t) => sum + (moved[t] ?? 0), 0) / group.length);
  const tint = { values, top: Math.max(0, ...values), lut: lutOf(state.map, "figure", theme), label: "moved" };
  return { tint, depth };
}

function DepthControl({ answer, depth, tint }: { answer: Answer; depth: number; tint: TokenTint }) {
  const app = useApp();
  return (
    <div class="toolbar">
      <Select
        label="Tokens coloured by change of state after"
        help="state"
        value={depth}
        options={answer.layers.map((l) => [l, `layer ${l}`] as const)}
        onChange={app.setter("depth")}
      />
      <ColourBar {...linearBar("Change of state", tint.lut, tint.top)} />
    </div>
  );
}

function Predictions({ answer, outcome, most }: { answer: Answer; outcome: Outcome | null; most: number }) {
  const app = useApp();
  const next = predictsNext(answer);
  const chosen = app.state.at >= 0;
  const predictions = outcome?.before.predictions ?? [];
  const more = predictions.length - CARDS;
  return (
    <div class="cards-of-predictions">
      {!most && (
        <p class="muted">
          This checkpoint has no head for tokens, so it predicts none. Its inner changes are shown all the same.
        </p>
      )}
      <PredictionCards answer={answer} outcome={outcome} most={CARDS} onTrace={app.trace} />
      {more > 0 && <p class="muted">{more} more masked tokens: choose one in the text.</p>}
      {chosen && (
        <Button onClick={() => app.set({ at: -1 })}>
          {next ? "Back to the last token" : "Back to the masked tokens"}
        </Button>
      )}
      {most > 0 && outcome && !predictions.length && !taskOf(app) && (
        <div class="notice">
          <p>
            This text has no [MASK]. Choose a token above to see the model’s predictions in its place, or take a text
            that has one:
          </p>
          {MASKED.map((text) => (
            <Button key={text} class="link" onClick={() => app.read({ text, pair: "" })}>
              {text}
            </Button>
          ))}
        </div>
      )}
    </div>
  );
}
