// The result of the model's own head for the text: a class, labels, an answer or the next token.
import type { Classes, Model, SpanAnswer } from "../../../build/openapi";
import type { Answer, JsonAnswer } from "../app/answer";
import type { App } from "../app/app";
import { escapeBidi } from "../app/bidi";
import type { Entry } from "../app/cache";
import { taskRequest, type Requested } from "../app/requests";
import { format, percent } from "../maps/scale";
import { BarTable } from "./bars";
import { useApp } from "./context";
import { Button } from "./controls";
import { LikeliestTokens } from "./likeliest";
import { statusOf } from "./status";

const LISTED = 5; // of the likeliest classes

const HEADINGS: Partial<Record<NonNullable<Model["task"]>, string>> = {
  "text-classification": "Class",
  "token-classification": "Labels of tokens",
  "question-answering": "Answer",
  "text-generation": "Next token",
};

// The result for one side of an experiment; null if the model has no such head.
export function taskOf(app: App, requested: Requested = app.state): Entry<JsonAnswer> | null {
  const model = app.model(requested.model);
  const request = model && taskRequest(requested, model);
  return request ? app.jsonCache.want(request) : null;
}

export const headingOf = (app: App): string => HEADINGS[app.model()?.task ?? "fill-mask"] ?? "";

// Shown beside the text, in every view. `of`: the overview's answer, which is requested first.
export function TaskCard({ of }: { of: Answer | null }) {
  const app = useApp();
  const entry = of && taskOf(app);
  if (!entry) return null;
  return (
    <section class="group task" aria-label="Result of the model">
      <h2>{headingOf(app)}</h2>
      {entry.answer ? <TaskResult before={entry.answer} after={null} /> : statusOf(app, entry)}
      <TaskActions />
    </section>
  );
}

function TaskActions() {
  const app = useApp();
  const task = app.model()?.task;
  const causes = (): void => app.go("experiment", { tone: "target_change", at: -1 });
  return (
    <p class="actions">
      <Button class="link" onClick={causes}>
        Which heads decide it?
      </Button>
      <Button class="link" onClick={() => app.trace(-1)}>
        Trace it
      </Button>
      <Button class="link" onClick={() => app.go("text")} hidden={task === "text-classification"}>
        Show over the text
      </Button>
    </p>
  );
}

// The result in words, for one line.
export function inShort({ classes, answer, predictions }: JsonAnswer): string {
  if (answer) return answer.best[0]?.text ?? "no answer";
  const next = predictions?.at(-1)?.top[0];
  if (next) return `next: ${escapeBidi(next.token)} ${percent(next.probability)}`;
  if (!classes || classes.task !== "text-classification") return "";
  const { predicted } = classes;
  if (Array.isArray(predicted)) return predicted.join(", ");
  return predicted ? `${predicted} ${percent(Math.max(...numbersOf(classes.probabilities)))}` : "";
}

const numbersOf = (values: Classes["logits"] | null): number[] => (values ?? []).map((v) => Number(v ?? NaN));

export function TaskResult({ before, after }: { before: JsonAnswer; after: JsonAnswer | null }) {
  if (before.answer) return <Answers before={before.answer} after={after?.answer ?? null} />;
  if (before.loss) return <NextToken before={before} after={after} />;
  const { classes } = before;
  if (!classes) return null;
  if (classes.task === "token-classification") return <LabelCounts before={classes} after={after?.classes ?? null} />;
  return <ClassBars before={classes} after={after?.classes ?? null} />;
}

function ClassBars({ before, after }: { before: Classes; after: Classes | null }) {
  const valuesOf = (classes: Classes): number[] => numbersOf(classes.probabilities ?? classes.logits);
  const write = before.probabilities ? percent : format;
  const [was, is] = [valuesOf(before), after && valuesOf(after)];
  const predicted = [(after ?? before).predicted].flat();
  const rows = before.labels
    .map((label, n) => ({ label, n, size: Math.max(was[n] ?? 0, is?.[n] ?? 0) }))
    .sort((a, b) => b.size - a.size)
    .slice(0, LISTED)
    .map(({ label, n }) => ({
      key: n,
      name: escapeBidi(label),
      marked: predicted.includes(label),
      before: { size: Math.max(0, was[n] ?? 0), written: write(was[n]) },
      after: is && { size: Math.max(0, is[n] ?? 0), written: write(is[n]) },
    }));
  const more = before.labels.length - rows.length;
  return (
    <>
      <BarTable
        caption="Classes of the text"
        head="Class"
        what={before.probabilities ? "Probability" : "Score"}
        rows={rows}
      />
      {more > 0 && <p class="muted">{more} more classes are less likely.</p>}
    </>
  );
}

// Counts the tokens of each label.
function LabelCounts({ before, after }: { before: Classes; after: Classes | null }) {
  const count = ({ predicted }: Classes, label: string): number =>
    Array.isArray(predicted) ? predicted.filter((one) => one === label).length : 0;
  const bar = (classes: Classes, label: string) => {
    const size = count(classes, label);
    return { size, written: size };
  };
  const rows = before.labels
    .filter((label) => count(before, label) + (after ? count(after, label) : 0))
    .map((label) => ({
      key: label,
      name: escapeBidi(label),
      before: bar(before, label),
      after: after && bar(after, label),
    }));
  return <BarTable caption="Labels of tokens" head="Label" what="Tokens" rows={rows} />;
}

function Answers({ before, after }: { before: SpanAnswer; after: SpanAnswer | null }) {
  const list = ({ best }: SpanAnswer, side: string) => (
    <ol class="answers" key={side} aria-label={side || "Answers, best first"}>
      {best.map(({ start, end, text, score }) => (
        <li key={`${start} ${end}`}>
          <span>{escapeBidi(text ?? "")}</span> <small title="Start logit and end logit, added">{format(score)}</small>
        </li>
      ))}
    </ol>
  );
  const app = useApp();
  return (
    <>
      {!app.state.pair && <p class="muted">Write the question as the text and the passage as the second segment.</p>}
      {after
        ? [<h3 key="b">Before</h3>, list(before, "Before"), <h3 key="a">After</h3>, list(after, "After")]
        : list(before, "")}
    </>
  );
}

// After the last token, and the loss of the whole text.
function NextToken({ before, after }: { before: JsonAnswer; after: JsonAnswer | null }) {
  const [was, is] = [before.predictions?.at(-1), after?.predictions?.at(-1)];
  const loss = (side: JsonAnswer | null): string => format(side?.loss?.mean);
  return (
    <>
      {was && <LikeliestTokens caption="Next tokens" before={was} after={is ?? null} />}
      <p class="muted" title="Mean over the tokens of −ln of the probability that each had before it came">
        Loss {loss(before)}
        {after && ` → ${loss(after)}`} nats a token
      </p>
    </>
  );
}
