// Everything the views share: the state, the answers it needs, and the results computed from them. A change of state
// makes requests; their answers make a drawing.
import { AttentionMaps } from "../heads/attention";
import { Deriver, type Derived } from "../heads/derived";
import { isScore, type Known } from "../heads/figures";
import { KnownHeads } from "../heads/known";
import { isPlain, PLAIN, type Measures } from "../heads/measures";
import { shapeOf, SUM, tellingHead, withinShape, type Selection, type Shape } from "../heads/selection";
import type { Head } from "../maps/analysis";
import { headOf, roughHeadOf } from "../maps/axis";
import type { Theme } from "../maps/colour";
import type { Exportable } from "../saving/export";
import { StoryKeeper } from "../story/story";
import { Address } from "./address";
import type { Answer, JsonAnswer } from "./answer";
import type { HeadScore } from "../../../build/openapi";
import type { Model } from "./api";
import { Cache, type Entry } from "./cache";
import { perFrame } from "./frame";
import { perObject } from "./per-object";
import { headRequest, overviewRequest, scoresRequest, secondState, type Requested } from "./requests";
import { analyze, readJson, withinFile } from "./sources";
import { INITIAL, type State } from "./state";

const HEADS_MOST = 8; // kept of one answer

export class App {
  models: Model[] = [];
  theme: Theme = "light";
  readonly draw: () => void;
  readonly address: Address;
  readonly cache: Cache<Answer>;
  readonly jsonCache: Cache<JsonAnswer>;
  readonly deriver: Deriver;
  readonly attentionMaps: AttentionMaps;
  readonly story: StoryKeeper;
  private readonly known: KnownHeads;
  announcer: (text: string, aloud: boolean) => void = () => {};
  exportable: () => Exportable | null = () => null; // of the view on screen
  onExportable: () => void = () => {}; // called when exportable is set

  constructor(render: () => void) {
    this.draw = perFrame(() => {
      const caches = [this.cache, this.jsonCache];
      for (const cache of caches) cache.begin();
      render();
      for (const cache of caches) cache.sweep();
    });
    this.address = new Address(this.draw);
    this.cache = new Cache(analyze, this.draw);
    this.jsonCache = new Cache(readJson, this.draw);
    this.deriver = new Deriver(this.draw);
    this.attentionMaps = new AttentionMaps(this.cache, this.deriver);
    this.story = new StoryKeeper(this.draw);
    this.known = new KnownHeads(this.cache, this.deriver, this.draw);
  }

  get state(): State {
    return withinFile(this.address.state);
  }

  set(patch: Partial<State>, step: boolean | "merge" = false): void {
    this.address.set(patch, step);
  }

  // As set(), if it changes anything: for changes that follow from a drawing.
  commit(patch: Partial<State>): void {
    const text = (value: unknown): string => JSON.stringify(value);
    const changes = Object.entries(patch).some(([key, value]) => text(this.state[key as keyof State]) !== text(value));
    if (changes) this.set(patch);
  }

  // Opens a head's maps.
  open(layer: number, head: number): void {
    this.set({ view: "head", layer, head, pin: [] }, true);
  }

  // One line at the foot of the page. `aloud`: for screen readers as well, since the keyboard moved there.
  announce(text: string, aloud = false): void {
    this.announcer(text, aloud);
  }

  overview(requested: Requested = this.state): Entry {
    return this.cache.want(overviewRequest(requested, INITIAL.tau));
  }

  derived(overview: Answer, first: Iterable<number> = [], alone = false): Derived {
    return this.deriver.similarities(overview, this.state.special, first, alone);
  }

  attention(overview: Answer, l: number, requested: Requested = this.state): Uint8Array[] | null {
    return this.attentionMaps.of(overview, l, requested);
  }

  figures(overview: Answer): Known[][] {
    return this.known.of(overview, this.state, this.scores(overview));
  }

  // Scores of causal models, and of others if a head's score is requested.
  private scores({ encoding }: Answer): readonly (readonly HeadScore[])[] | undefined {
    const { sort, tint, only } = this.state;
    if (!encoding.causal && only !== "induction" && ![sort, tint].some(isScore)) return undefined;
    return this.jsonCache.want(scoresRequest(this.state)).answer?.head_scores;
  }

  // Takes the server's list. From now on the model on screen is named in links and requests.
  learn(models: Model[]): void {
    this.models = models;
    const [first] = models;
    if (!first) return;
    for (const cache of [this.cache, this.jsonCache]) cache.nameDefault(first.name);
    this.commit({ model: this.modelName() });
  }

  // Drops the answers of models that may have been loaded again.
  forget(): void {
    for (const cache of [this.cache, this.jsonCache]) cache.clear();
  }

  // The model's own name, where the state names none.
  modelName(name: string = this.state.model): string {
    return name || (this.models[0]?.name ?? "");
  }

  model(name: string = this.state.model): Model | undefined {
    return this.models.find((model) => model.name === this.modelName(name));
  }

  // The second side of a comparison. Its model is another one than the first's until one is chosen.
  secondState(): Requested {
    const first = this.modelName();
    const other = this.models.find(({ name }) => name !== first)?.name ?? first;
    return secondState(this.state, this.state.model2 || other);
  }

  shape(answer: Answer | null, model: string): Shape | null {
    return shapeOf(answer, this.models, model);
  }

  selection(answer: Answer | null, chosen: Selection = this.state, model: string = this.state.model): Selection {
    const unset = chosen.layer < 0 && chosen.head >= 0;
    const telling = unset && answer?.summary ? tellingHead(answer.summary) : null;
    return withinShape(telling ?? chosen, unset && !answer ? null : this.shape(answer, model));
  }

  // One head in single precision. Until the model's shape is known, the overview's entry, which has no answer then.
  exactly(requested: Requested, { layer, head }: Selection, measures: Measures = PLAIN): Entry {
    const overview = overviewRequest(requested, INITIAL.tau);
    const known = this.shape(this.cache.peek(overview), requested.model);
    return this.cache.want(known && layer >= 0 ? headRequest(requested, layer, head, measures) : overview);
  }

  // The chosen head, exact if its answer is here. Until then from the overview's bytes, with plain measures only.
  head(measures: Measures = PLAIN): { head: Head | null; entry: Entry; selection: Selection } {
    const { answer } = this.overview();
    const selection = this.selection(answer);
    const entry = this.exactly(this.state, selection, measures);
    if (entry.answer) return { head: this.exactHead(entry.answer), entry, selection };
    const map = answer && isPlain(measures) && this.attention(answer, selection.layer)?.[selection.head];
    const rough = map && selection.head !== SUM ? this.roughHead(answer, map, selection) : null;
    return { head: rough, entry, selection };
  }

  private readonly heads = perObject<Answer, Map<string, Head>>(() => new Map());
  private remember(answer: Answer, key: string, make: () => Head): Head {
    const known = this.heads(answer);
    const full = `${key} ${this.state.special} ${this.state.words}`;
    let head = known.get(full);
    if (!head) {
      if (known.size > HEADS_MOST) known.clear();
      known.set(full, (head = make()));
    }
    return head;
  }

  exactHead(answer: Answer): Head {
    return this.remember(answer, "", () => headOf(answer, this.state));
  }
  private roughHead(answer: Answer, map: Uint8Array, { layer, head }: Selection): Head {
    return this.remember(answer, `${layer} ${head}`, () => roughHeadOf(answer, map, layer, head, this.state));
  }
}
