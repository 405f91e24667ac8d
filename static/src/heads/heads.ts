// The heads of a text for every view: their maps and figures, and one of them in full.
import type { HeadScore } from "../../../build/openapi";
import type { Answer } from "../app/answer";
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
import { extentOf, isTooLong } from "./pooled";
import type { Made } from "./worker";

const HEADS_MOST = 8; // kept of one answer

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
  head(measures: Measures = PLAIN): { head: Head | null; entry: Entry; selection: Selection } {
    const overview = this.app.overview();
    const { answer } = overview;
    const selection = this.app.selection(answer);
    if (isTooLong(answer)) return { head: null, entry: overview, selection };
    const entry = this.app.exactly(this.app.state, selection, measures);
    if (entry.answer) return { head: this.exactHead(entry.answer), entry, selection };
    const rough = answer && isPlain(measures) ? this.roughHead(answer, selection) : null;
    return { head: rough, entry, selection };
  }

  private readonly heads = perObject<Answer, Map<string, Head>>(() => new Map());
  private remember(answer: Answer, key: string, make: () => Head, { special, words }: Lens = this.app.state): Head {
    const known = this.heads(answer);
    const full = `${key} ${special} ${words}`;
    let head = known.get(full);
    if (!head) {
      if (known.size > HEADS_MOST) known.clear();
      known.set(full, (head = make()));
    }
    return head;
  }

  exactHead(answer: Answer): Head {
    return this.remember(answer, "", () => headOf(answer, this.app.state));
  }
  // A head from the overview's bytes; null for the sum, for long texts, and before the layer's maps are here.
  roughHead(answer: Answer, { layer, head }: Selection): Head | null {
    const map = this.attention(answer, layer)?.[head];
    if (!map) return null;
    return this.remember(answer, `${layer} ${head}`, () => roughHeadOf(answer, map, layer, head, this.app.state));
  }

  // The same head with copies of its maps for pictures of `side` pixels, made by the worker. Null until they are here;
  // `done` is then called. One is kept.
  madeHead(answer: Answer, { layer, head }: Selection, side: number, done: () => void): Made | null {
    const map = this.attention(answer, layer)?.[head];
    if (!map) return null;
    const { special, words } = this.app.state;
    const lens = { special, words };
    const similarity = this.deriver.of(answer).similarity[layer * answer.heads.length + head];
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
