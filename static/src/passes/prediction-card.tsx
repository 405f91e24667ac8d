// The model's prediction at a token before and after a change.
import type { Prediction } from "../../../build/openapi";
import { escapeBidi } from "../app/bidi";
import { format, percent } from "../maps/scale";
import { LikeliestTokens } from "../ui/likeliest";
import { predictsNext, type Answer } from "../app/answer";
import { placeOf, type Outcome } from "./outcome";
import { Button } from "../ui/controls";

// The predictions of both sides, `most` of them at most.
export const PredictionCards = (props: {
  answer: Answer;
  outcome: Outcome | null;
  most: number;
  onTrace?: (at: number) => void;
}) =>
  (props.outcome?.before.predictions ?? [])
    .slice(0, props.most)
    .map((one) => (
      <PredictionCard
        key={one.position}
        place={placeOf(props.answer, one.position)}
        causal={predictsNext(props.answer)}
        before={one}
        after={props.outcome?.after?.predictions?.find(({ position }) => position === one.position) ?? null}
        onTrace={props.onTrace && (() => props.onTrace?.(one.position))}
      />
    ));

// `place`: where the prediction is made, in words. `causal`: it is of the token that follows.
function PredictionCard(props: {
  place: string;
  causal: boolean;
  before: Prediction;
  after: Prediction | null;
  onTrace: (() => void) | undefined;
}) {
  const { place, causal, before, after } = props;
  return (
    <section class="card prediction" aria-label={`Predictions: ${place}`}>
      <h2>{place}</h2>
      <p class="muted">
        {factsOf(before, after, causal)}{" "}
        {props.onTrace && (
          <Button class="link" title="The strongest routes to this prediction" onClick={props.onTrace}>
            Trace it
          </Button>
        )}
      </p>
      <LikeliestTokens
        caption={`Predictions: ${place}`}
        head={causal ? "Next token" : "Token"}
        before={before}
        after={after}
      />
    </section>
  );
}

function factsOf(before: Prediction, after: Prediction | null, causal: boolean): string {
  const both = (write: (one: Prediction) => string): string =>
    after ? `${write(before)} → ${write(after)}` : write(before);
  const actual = causal ? `What follows, “${escapeBidi(before.token ?? "")}”` : "The token there";
  const there =
    before.rank === null
      ? ""
      : `${actual}: ${both(({ probability }) => percent(probability))}, rank ${both(({ rank }) => String(rank))}. `;
  return `${there}Entropy ${both(({ entropy }) => format(entropy))} nats.`;
}
