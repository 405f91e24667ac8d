// Everything the views share: the state, the answers it needs, and the head it names. A change of state makes requests;
// their answers make a drawing.
import { Address } from "./address";
import { isTooLong, type Answer, type JsonAnswer } from "./answer";
import { Problem, type Model } from "./api";
import { Cache, type Entry } from "./cache";
import { perFrame } from "./frame";
import { PLAIN, type Measures } from "./measures";
import {
  headRequest,
  LONG,
  mayBeLong,
  overviewRequest,
  secondState,
  tokensRequest,
  type AnalyzeRequest,
  type Requested,
} from "./requests";
import { shapeOf, SUM, tellingHead, withinShape, type Selection, type Shape } from "./selection";
import { analyze, isFile, readJson, withinFile } from "./sources";
import { CROSS_TOO_LONG, keepsPin, stackOf, withinStack } from "./stacks";
import { INITIAL, leavesFirst, type State, type View } from "./state";
import type { Theme } from "./theme";

// Pooled maps are not made of cross heads.
const isLongCross = ({ encoding, source }: Answer): boolean =>
  Math.max(encoding.ids.length, source?.ids.length ?? 0) > LONG;

const refused = (entry: Entry, detail: string): Entry => ({
  ...entry,
  status: "failed",
  answer: null,
  problem: new Problem(422, "Too long", detail, "/max_tokens"),
});

export class App {
  models: Model[] = [];
  theme: Theme = "light";
  readonly draw: () => void;
  readonly address: Address;
  readonly cache: Cache<Answer>;
  readonly jsonCache: Cache<JsonAnswer>;
  announcer: (text: string, aloud: boolean) => void = () => {};

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
  }

  get state(): State {
    return withinStack(withinFile(this.address.state));
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

  // ---- what a click does: each is a step of the browser's history, but pinning ----

  readonly go = (view: View, more: Partial<State> = {}): void =>
    this.set({ ...(keepsPin(this.state, view) ? {} : { pin: [] }), ...more, view }, true);

  // Chooses a head for the view on screen.
  readonly pick = (layer: number, head: number): void => this.set({ layer, head }, true);

  // Chooses the head of a comparison's second side.
  readonly pickSecond = (layer2: number, head2: number): void => this.set({ layer2, head2 }, true);

  // Opens a head's maps.
  readonly open = (layer: number, head: number): void => this.go("head", { layer, head, pin: [] });

  // The origin of a prediction; -1: of the result.
  readonly trace = (at: number): void => this.go("trace", { at, route: -1 });

  // Another text: what was chosen in the one before is chosen no more.
  readonly read = (input: Partial<State>): void => {
    const plain = leavesFirst(this.state, input) ? { center: false } : {};
    this.set({ pin: [], sel: [], zoom: [], at: -1, ...plain, ...input }, true);
  };

  readonly takeModel = (model: string): void => this.set({ model, prompt: "", sha: "" }, true);

  // A cell as two token positions; [] for none.
  readonly pin = (pin: readonly number[]): void => this.set({ pin });

  // The function that sets a field.
  setter<K extends keyof State>(field: K, step: boolean | "merge" = false): (value: State[K]) => void {
    return (value) => this.set({ [field]: value }, step);
  }

  // One line at the foot of the page. `aloud`: for screen readers as well, since the keyboard moved there.
  announce(text: string, aloud = false): void {
    this.announcer(text, aloud);
  }

  overview(requested: Requested = this.state): Entry {
    const tokens = this.tokensOf(requested);
    const entry = tokens && this.cache.want(tokens);
    if (entry && !entry.answer) return entry;
    if (entry?.answer?.source && isLongCross(entry.answer)) return refused(entry, CROSS_TOO_LONG);
    return this.cache.want(overviewRequest(requested, INITIAL.tau, entry?.answer?.encoding.ids.length));
  }

  // Asks how long a text is, if its overview depends on that.
  private tokensOf(requested: Requested): AnalyzeRequest | null {
    const { model } = requested;
    return !isFile(model) && mayBeLong(requested, this.model(model)?.max_tokens) ? tokensRequest(requested) : null;
  }

  // The overview's answer if it is here, without asking for it.
  private known(requested: Requested): Answer | null {
    const tokens = this.tokensOf(requested);
    const length = tokens ? this.cache.peek(tokens)?.encoding.ids.length : 0;
    return length === undefined ? null : this.cache.peek(overviewRequest(requested, INITIAL.tau, length));
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
    return shapeOf(answer, this.model(model), stackOf({ ...this.state, model }));
  }

  selection(answer: Answer | null, chosen: Selection = this.state, model: string = this.state.model): Selection {
    const unset = chosen.layer < 0 && chosen.head >= 0;
    const telling = unset && answer?.summary ? tellingHead(answer.summary) : null;
    const within = withinShape(telling ?? chosen, unset && !answer ? null : this.shape(answer, model));
    // The largest cells and the pairs of a long text are of single heads.
    return within.head === SUM && isTooLong(answer) ? { ...within, head: 0 } : within;
  }

  // One head in single precision. Until the model's shape is known, the overview's entry, which has no answer then.
  exactly(requested: Requested, { layer, head }: Selection, measures: Measures = PLAIN): Entry {
    const answer = this.known(requested);
    const known = this.shape(answer, requested.model);
    const waits = !answer && this.tokensOf(requested) !== null; // its maps may be too large
    return known && layer >= 0 && !waits
      ? this.cache.want(headRequest(requested, layer, head, measures))
      : this.overview(requested);
  }
}
