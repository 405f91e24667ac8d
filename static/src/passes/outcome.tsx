// Both sides of an experiment: the answers of the pass before and after its edits, which several views show.
import { useRef } from "preact/hooks";
import { predictsNext, type Answer, type JsonAnswer } from "../app/answer";
import type { App } from "../app/app";
import { escapeBidi } from "../app/bidi";
import type { Entry } from "../app/cache";
import { factsOf } from "../app/model-facts";
import { predictionRequest, type AnalyzeRequest, type Requested } from "../app/requests";
import { stackOf } from "../app/stacks";
import { useApp } from "../ui/context";
import { headingOf, taskOf, TaskResult } from "../ui/task-result";
import { requestOf, type Edit } from "./interventions";

const TOP_MOST = 100; // tokens of a prediction, of which the likeliest are shown

// The answers of the pass before and after the change.
export interface Outcome {
  before: JsonAnswer;
  after: JsonAnswer | null; // null: nothing is changed
  edits: readonly Edit[];
}

// The number of tokens of a prediction; 0: the checkpoint has no head for masked or next tokens.
export function mostOf(app: App): number {
  const model = app.model();
  const decodes = stackOf(app.state) !== "encoder";
  return model && !model.mlm && !model.causal && !decodes ? 0 : Math.min(TOP_MOST, model?.vocab_size ?? TOP_MOST);
}

// The token whose prediction is shown; -1: every [MASK]. Causal models: the last token that is not special.
export function atOf({ state }: App, answer: Answer): number {
  const { encoding } = answer;
  if (state.at >= 0 && state.at < encoding.ids.length) return state.at;
  return predictsNext(answer) ? Math.max(0, encoding.special.lastIndexOf(false)) : -1;
}

export const changedState = ({ state }: App, edits: readonly Edit[]): Requested =>
  edits.length ? { ...state, interventions: requestOf(edits) } : state;

// The edits of heads that the model has.
export const editsWithin = ({ state }: App, { layers, heads }: Answer): readonly Edit[] =>
  state.edits.filter(({ layer, head, stack }) => {
    const other = stack && factsOf(state.model)?.stacks[stack];
    if (stack && !other) return false;
    return layer < (other?.num_layers ?? layers.length) && head < (other?.num_heads ?? heads.length);
  });

// Equal for requests of one model and text: their predictions may be at different tokens.
const inputOf = (request: AnalyzeRequest): string => JSON.stringify({ ...request, predictions: null });

// Asks for both sides; `ask` gives null if there is nothing to ask. The last ones stay on screen until the next are here,
// as long as they are of the same model and text.
export function useSides(
  edits: readonly Edit[],
  ask: (requested: Requested) => Entry<JsonAnswer> | null,
): { outcome: Outcome | null; waiting: Entry<JsonAnswer> | null } {
  const app = useApp();
  const last = useRef<{ input: string; outcome: Outcome } | null>(null);
  const before = ask(app.state);
  const after = edits.length ? ask(changedState(app, edits)) : null;
  const waiting = [before, after].find((entry) => entry && entry.status !== "ready") ?? null;
  const input = before && inputOf(before.request);
  if (input !== null && before?.answer && (!after || after.answer))
    last.current = { input, outcome: { before: before.answer, after: after?.answer ?? null, edits } };
  else if (last.current?.input !== input) last.current = null;
  return { outcome: last.current?.outcome ?? null, waiting };
}

// The predictions of both sides at a token, or at every [MASK].
export function useOutcome(edits: readonly Edit[], at: number) {
  const app = useApp();
  return useSides(edits, (requested) => app.jsonCache.want(predictionRequest(requested, at, mostOf(app))));
}

// The place of a prediction in words.
export function placeOf(answer: Answer, position: number): string {
  const token = `${escapeBidi(answer.encoding.tokens[position] ?? "")} ${position}`;
  return predictsNext(answer) ? `After ${token}` : `At ${token}`;
}

// Shows what the model's own head says, before and after.
export function TaskChange({ answer, edits }: { answer: Answer; edits: readonly Edit[] }) {
  const app = useApp();
  const next = predictsNext(answer);
  const { outcome } = useSides(edits, (requested) => (next ? null : taskOf(app, requested)));
  return (
    outcome && (
      <section class="card">
        <h2>{headingOf(app)}</h2>
        <TaskResult {...outcome} />
      </section>
    )
  );
}
