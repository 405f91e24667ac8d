// All heads ranked by what they have between two chosen tokens, below the views that choose them.
import { partAt, type Answer } from "../app/answer";
import type { App } from "../app/app";
import { attentionPartRequest, fineAttentionRequest, similarityPartRequest, type Range } from "../app/requests";
import type { Axis } from "../maps/analysis";
import { tokensOf } from "../maps/axis";
import { lutOf } from "../maps/colour";
import { format } from "../maps/scale";
import { useApp } from "../ui/context";
import { StatusLine } from "../ui/status";
import { StateDisclosure, StateSegmented } from "../ui/state-controls";
import { betweenTokens, chanceOf, writeHalf, type Group, type PairRelation } from "./between";
import { HeadMap, type HeadNumbers } from "./head-map";
import { linearTint } from "./tint";
import { isOfHeadSpace } from "../app/measures";

const nameIn = (axis: Axis, t: number): string => `“${axis.labels[t]}” ${axis.positions[t]}`;

export type EntryPair = readonly [first: number, second: number]; // entries of an axis

// A layer's maps as half-precision numbers; null until they are here.
function fineMaps(app: App, overview: Answer, l: number): Uint16Array[] | null {
  const { answer } = app.cache.want(fineAttentionRequest(app.state, [overview.layers[l] ?? l]));
  return answer && answer.heads.map((_, h) => partAt(answer.attentions as Uint16Array, answer, 0, h));
}

// The same as betweenTokens for a long text, from the few elements that it needs.
function partsBetween(app: App, overview: Answer, a: Group, b: Group): (number | null)[][] {
  const { state } = app;
  const { tie } = state;
  const [from, to] = tie === "from" ? [b, a] : [a, b];
  const rangeOf = (group: Group): Range => [Math.min(...group), Math.max(...group) + 1]; // a word's tokens adjoin
  const request = tie === "similar" ? similarityPartRequest : attentionPartRequest;
  const { answer } = app.cache.want(request(state, rangeOf(from), rangeOf(to)));
  return overview.layers.map((_, l) =>
    overview.heads.map((_head, h) => {
      const most = overview.summary?.[l]?.[h]?.max_similarity ?? 0;
      const part = answer?.parts[tie === "similar" ? "similarity" : "attention"];
      if (!answer || !part || (tie === "similar" && most <= 0)) return null;
      const sum = partAt(part, answer, l, h).reduce((total, v) => total + v, 0);
      return tie === "similar" ? sum / (from.length * to.length * most) : sum / from.length;
    }),
  );
}

// The numbers of all heads while they are shown.
export function pairNumbers(app: App, axis: Axis, pair: EntryPair | null): HeadNumbers | null {
  const overview = app.overview().answer;
  const { ties, tie, map } = app.state;
  if (!pair || !overview || !ties) return null;
  const [first, second] = pair.map((t) => axis.groups[t] ?? []);
  const values = overview.pooled
    ? partsBetween(app, overview, first ?? [], second ?? [])
    : betweenTokens(overview, (l) => fineMaps(app, overview, l), first ?? [], second ?? [], tie);
  const signed = tie === "similar";
  const [i, j] = pair.map((t) => nameIn(axis, t));
  const labels: Record<PairRelation, string> = {
    to: `Attention of ${i} to ${j}`,
    from: `Attention of ${j} to ${i}`,
    similar: `${app.state.center ? "Centred similarity" : "Similarity"}${isOfHeadSpace(app.state) ? "" : " O·O′ in the head’s space"}, as a fraction of each head’s largest`,
  };
  return {
    name: { to: "attention_to", from: "attention_from", similar: "similarity_of_two" }[tie],
    ...linearTint(values, labels[tie], lutOf(map, signed ? "signed" : "attention", app.theme), signed),
    write: signed ? format : writeHalf,
    caption: `${labels[tie]}: layers down, heads across`,
    ...(signed ? {} : { chance: chanceOf(overview.encoding.ids.length, (tie === "to" ? second : first) ?? []) }),
  };
}

export function PairRanking({ axis, pair }: { axis: Axis; pair: EntryPair | null }) {
  const app = useApp();
  if (!pair || !app.overview().answer) return null;
  const { tie } = app.state;
  const [i, j] = pair;
  const numbers = pairNumbers(app, axis, pair);
  const waiting =
    (tie !== "similar" || app.overview().answer?.pooled) && numbers?.values.every((row) => row[0] === null);
  const pin = tokensOf(axis, pair);
  return (
    <StateDisclosure field="ties" title={`Rank all heads between ${nameIn(axis, i)} and ${nameIn(axis, j)}`}>
      <StateSegmented field="tie" help="chance" />
      {waiting && <StatusLine>Fetching the maps of all layers…</StatusLine>}
      {numbers && <HeadMap of={numbers} onOpen={(layer, head) => app.go("head", { layer, head, pin })} />}
    </StateDisclosure>
  );
}
