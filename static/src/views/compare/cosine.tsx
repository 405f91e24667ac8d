// Shows the cosine of two texts of a sentence encoder, the tokens’ shares of it, and the heads that bring it about.
import { useMemo } from "preact/hooks";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { effectsRequest, lastStatesRequest, vectorRequest, type Requested } from "../../app/requests";
import { contributionsOf, cosineOf } from "../../heads/cosine";
import { HeadMap } from "../../heads/head-map";
import { tokenAxisOf } from "../../maps/axis";
import type { Axis } from "../../maps/analysis";
import { lutOf, tinted } from "../../maps/colour";
import { placesUpTo } from "../../maps/linear";
import { format } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { Facts } from "../../ui/controls";
import { StateDisclosure } from "../../ui/state-controls";
import { PromptSelect } from "../../ui/prompt-select";
import { statusOf } from "../../ui/status";
import { TextFlow, type TokenLook } from "../../ui/text-flow";
import { EffectsProgress, rowsOf } from "../../passes/effects";
import { tintOf, valuesOf } from "../../passes/tones";

const TOP = 5; // tokens listed for a text

export function Cosine({ other }: { other: Requested }) {
  return (
    <section class="cosine" aria-label="Cosine">
      <SecondPrompt />
      <Result other={other} />
    </section>
  );
}

function SecondPrompt() {
  const app = useApp();
  const { prompt, prompt2 } = app.state;
  return (
    <PromptSelect
      label="Prompt before the second text"
      value={prompt2 || prompt}
      onChange={app.setter("prompt2", true)}
    />
  );
}

function Result({ other }: { other: Requested }) {
  const app = useApp();
  const sides = [app.state, other] as const;
  const entries = sides.map((requested) => app.jsonCache.want(vectorRequest(requested)));
  const waiting = entries.find((entry) => !entry.answer);
  if (waiting) return statusOf(app, waiting);
  const [first = [], second = []] = entries.map((entry) => (entry.answer?.embedding?.vector ?? []).map(Number));
  return (
    <>
      <Facts of={[{ name: "Cosine of the sentence vectors", value: format(cosineOf(first, second)) }]} />
      <Tokens sides={sides} vectors={[first, second]} />
      <StateDisclosure field="causes" title="Which heads bring it about?">
        <HeadEffects vector={second} />
      </StateDisclosure>
    </>
  );
}

function Tokens({
  sides,
  vectors,
}: {
  sides: readonly [Requested, Requested];
  vectors: readonly [number[], number[]];
}) {
  const app = useApp();
  const entries = sides.map((requested) => app.cache.want(lastStatesRequest(requested)));
  const waiting = entries.find((entry) => !entry.answer);
  const [one, two] = entries.map((entry) => entry.answer);
  const shares = useMemo(
    () => one && two && ([sharesOf(app, sides[0], one, vectors[1]), sharesOf(app, sides[1], two, vectors[0])] as const),
    [one, two, vectors[0].join(), vectors[1].join()],
  );
  if (waiting) return statusOf(app, waiting);
  if (!one || !two || !shares) return null;
  const [first, second] = shares;
  if (!first || !second)
    return (
      <p class="muted">Dense layers follow the pooling of this model, so its tokens have no share of the cosine.</p>
    );
  const top = Math.max(...[...first, ...second].map(Math.abs));
  return (
    <>
      <p class="muted">
        Each token’s share of the cosine. The shares of a text sum to it. Amber raises the cosine, blue lowers it.
      </p>
      <div class="cosine-texts">
        <Side name="First text" requested={sides[0]} of={one} values={first} top={top} />
        <Side name="Second text" requested={sides[1]} of={two} values={second} top={top} />
      </div>
    </>
  );
}

function sharesOf(
  app: App,
  requested: Requested,
  { hiddenStates, encoding }: Answer,
  other: readonly number[],
): number[] | null {
  const embedding = app.jsonCache.peek(vectorRequest(requested))?.embedding;
  const states = hiddenStates as Float32Array | null;
  if (!embedding || !states) return null;
  return contributionsOf(embedding, states.subarray(states.length / 2), encoding.ids.length, other); // [embeddings, last]
}

function Side(props: { name: string; requested: Requested; of: Answer; values: readonly number[]; top: number }) {
  const { state, theme } = useApp();
  const { name, requested, of, values, top } = props;
  const axis: Axis = tokenAxisOf(of.encoding);
  const lut = lutOf(state.map, "difference", theme);
  const place = placesUpTo(top, true);
  const lookOf = (t: number): TokenLook => ({ title: format(values[t]), style: tinted(lut, place(values[t] ?? 0)) });
  const strongest = values
    .map((value, t) => ({ value, t }))
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
    .slice(0, TOP);
  return (
    <div>
      <h3>{name}</h3>
      <TextFlow axis={axis} texts={[requested.text, requested.pair]} lookOf={lookOf} />
      <ol class="ranked" aria-label={`Tokens of the ${name.toLowerCase()}, largest share first`}>
        {strongest.map(({ value, t }) => (
          <li key={t}>
            <span>
              {axis.labels[t]} {axis.positions[t]}
            </span>
            <b>{format(value)}</b>
          </li>
        ))}
      </ol>
    </div>
  );
}

// Switches each head of the first text's pass off alone.
function HeadEffects({ vector }: { vector: readonly number[] }) {
  const app = useApp();
  const { answer } = app.overview();
  if (!answer) return null;
  const target = { cosine: [...vector] };
  const effects = rowsOf(app, answer, (layer) => effectsRequest(app.state, layer, null, target));
  const changes = valuesOf("target_change", undefined, effects.rows, answer.heads.length) ?? [];
  const values = changes.map((row) => row.map((change) => change && -change));
  const tint = tintOf("target_change", values, app.state.map, app.theme);
  const numbers = {
    ...tint,
    bar: { ...tint.bar, label: "Cosine lost" },
    name: "cosine_lost",
    write: format,
    caption: "Cosine lost with each head of the first text switched off alone: above 0 the head had raised it",
  };
  return (
    <>
      <EffectsProgress of={effects} />
      <HeadMap of={numbers} onOpen={app.pick} />
    </>
  );
}
