// The heads of a text for every view: their maps and figures, and one of them in full.
import type { HeadScore } from "../../../build/openapi";
import { isTooLong, type Answer } from "../app/answer";
import type { App } from "../app/app";
import type { Entry } from "../app/cache";
import { isPlain, PLAIN, type Measures } from "../app/measures";
import { perObject } from "../app/per-object";
import { scoresRequest, type Requested } from "../app/requests";
import { stackOf } from "../app/stacks";
import type { Selection } from "../app/selection";
import type { Head } from "../maps/analysis";
import { headOf, type Lens } from "../maps/axis";
import { AttentionMaps } from "./attention";
import { Deriver, type Derived } from "./derived";
import { isScore, type Known } from "./figures";
import { KnownHeads } from "./known";
import { roughHeadOf } from "./outputs";
import { extentOf } from "./pooled";
import type { Made } from "./worker";

const HEADS_MOST = 8; // kept of one answer
export const AT_ONCE_MOST = 128; // tokens of a text whose heads are made without the worker

interface Shown {
  head: Head | null;
  stale: boolean; // the head before it holds its place until it is here, and must not be seen
  entry: Entry;
  selection: Selection;
}

class Heads {
  readonly deriver: Deriver;
  readonly attentionMaps: AttentionMaps;
  private readonly known: KnownHeads;

  constructor(private readonly app: App) {
    this.deriver = new Deriver(app.draw);
    this.attentionMaps = new AttentionMaps(app.cache, this.deriver);
    this.known = new KnownHeads(app.cache, this.deriver, app.draw);
  }

  derived(overview: Answer, first: Iterable<number> = [], alone = false): Derived {
    return this.deriver.similarities(overview, this.app.state.special, first, alone);
  }

  attention(overview: Answer, l: number, requested: Requested = this.app.state): Uint8Array[] | null {
    return this.attentionMaps.of(overview, l, requested);
  }

  figures(overview: Answer): Known[][] {
    return this.known.of(overview, this.app.state, this.scores(overview));
  }

  // Scores of causal models, and of others if a head's score is requested.
  private scores({ encoding }: Answer): readonly (readonly HeadScore[])[] | undefined {
    const { sort, tint, only } = this.app.state;
    if (stackOf(this.app.state) !== "encoder") return undefined; // the service scores no others
    if (!encoding.causal && only !== "induction" && ![sort, tint].some(isScore)) return undefined;
    return this.app.jsonCache.want(scoresRequest(this.app.state)).answer?.head_scores;
  }

  // The chosen head, exact if its answer is here. Until then from the overview's bytes, with plain measures only.
  head(measures: Measures = PLAIN): Shown {
    const overview = this.app.overview();
    const { answer } = overview;
    const selection = this.app.selection(answer);
    if (isTooLong(answer)) return { head: null, stale: false, entry: overview, selection };
    const entry = this.app.exactly(this.app.state, selection, measures);
    const rough = (): Head | null => (answer && isPlain(measures) ? this.roughHead(answer, selection) : null);
    const head = entry.answer ? this.exactHead(entry.answer) : rough();
    if (head) this.last = { head, answer };
    const stale = !head && entry.status === "loading" && this.last?.answer === answer;
    return { head: stale ? (this.last?.head ?? null) : head, stale, entry, selection };
  }
  private last: { head: Head; answer: Answer | null } | null = null;

  private readonly heads = perObject<Answer, Map<string, Head>>(() => new Map());
  private remembered(answer: Answer, key: string, { special, words }: Lens = this.app.state): Head | undefined {
    return this.heads(answer).get(`${key} ${special} ${words}`);
  }
  private remember(answer: Answer, key: string, make: () => Head, lens: Lens = this.app.state): Head {
    const known = this.heads(answer);
    let head = this.remembered(answer, key, lens);
    if (!head) {
      if (known.size > HEADS_MOST) known.clear();
      known.set(`${key} ${lens.special} ${lens.words}`, (head = make()));
    }
    return head;
  }

  exactHead(answer: Answer): Head {
    return this.remember(answer, "", () => headOf(answer, this.app.state));
  }
  // A head from the overview's bytes; null for the sum, for long texts, before the layer's maps are here, and until the
  // worker has made it of many tokens.
  roughHead(answer: Answer, selection: Selection): Head | null {
    const { layer, head } = selection;
    const map = this.attention(answer, layer)?.[head];
    if (!map) return null;
    const key = `${layer} ${head}`;
    if (answer.encoding.ids.length > AT_ONCE_MOST)
      return this.remembered(answer, key) ?? this.madeHead(answer, selection, 0, this.app.draw)?.head ?? null;
    return this.remember(answer, key, () => roughHeadOf(answer, map, layer, head, this.app.state));
  }

  // The same head with copies of its maps for pictures of `side` pixels (0: none), made by the worker. Null until they are
  // here; `done` is then called. One is kept.
  madeHead(answer: Answer, { layer, head }: Selection, side: number, done: () => void): Made | null {
    const map = this.attention(answer, layer)?.[head];
    if (!map) return null;
    const { special, words } = this.app.state;
    const lens = { special, words };
    const similarity = side ? this.deriver.of(answer).similarity[layer * answer.heads.length + head] : undefined;
    const key = [layer, head, side, special, words, similarity !== undefined].join(" ");
    if (this.ordered?.answer === answer && this.ordered.key === key) return this.ordered.made;
    const ordered = { answer, key, made: null as Made | null };
    this.ordered = ordered;
    const { tokens, columns } = extentOf(answer, special);
    this.deriver.head(answer, layer, head, { attention: map, similarity, lens, side, tokens, columns }, (made) => {
      ordered.made = made;
      this.remember(answer, `${layer} ${head}`, () => made.head, lens);
      done();
    });
    return null;
  }
  private ordered: { answer: Answer; key: string; made: Made | null } | null = null;
}

export const headsOf = perObject((app: App) => new Heads(app));
