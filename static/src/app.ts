// state -> requests -> answers -> views. The one place where state changes.
import { Cache, type Entry } from "./cache";
import { analyze, readJson, type Model } from "./api";
import { partAt, type Answer, type JsonAnswer, type Summary } from "./answer";
import type { Head } from "./analysis";
import type { Theme } from "./colour";
import { Deriver, type Derived } from "./derived";
import { perFrame } from "./dom";
import type { Exportable } from "./export";
import { headOf, roughHeadOf } from "./lens";
import { figuresAt } from "./levels";
import { isPlain, PLAIN, type Measures } from "./measures";
import type { Known } from "./metrics";
import { attentionRequest, headRequest, overviewRequest, savedRequest, summaryRequest, type AnalyzeRequest, type Asked } from "./requests";
import { precisionOf } from "./precision";
import { visible } from "./visible";
import { formatState, INITIAL, parseState, SUM, unreadIn, type State } from "./state";

export interface Selection {
  layer: number;
  head: number;
}
export interface Shape {
  layers: number;
  heads: number;
}
export const nameOf = ({ layer, head }: Selection): string => `l${layer}-${head === SUM ? "sum" : `h${head}`}`;

const ADDRESS_MS = 150;
const BLOCK_BYTES = 1e6; // of attention maps that travel together
const SIGHT_BYTES = 16e6; // where they are waited for together
const SETTLE_MS = 250; // a slider at rest this long is asked about exactly
const ADDRESS_MAX = 1_500_000; // longer ones no browser takes: such a text cannot be shared as a link

export class App {
  state: State = parseState(location.hash);
  private unread: readonly string[] = unreadIn(location.hash);
  models: Model[] = [];
  theme: Theme = "light";
  readonly cache: Cache<Answer>;
  readonly jsonCache: Cache<JsonAnswer>;
  private readonly deriver: Deriver;
  readonly draw: () => void;
  private tell: (text: string, aloud: boolean) => void = () => {};

  constructor(private readonly render: () => void) {
    this.draw = perFrame(() => {
      const caches = [this.cache, this.jsonCache];
      for (const cache of caches) cache.begin();
      this.render();
      for (const cache of caches) cache.sweep();
    });
    this.cache = new Cache(analyze, this.draw);
    this.jsonCache = new Cache(readJson, this.draw);
    this.deriver = new Deriver(this.draw, () => this.part());
    addEventListener("popstate", () => this.reload());
    addEventListener("hashchange", () => this.reload());
  }

  private reload(): void {
    this.state = parseState(location.hash);
    this.unread = unreadIn(location.hash);
    this.draw();
  }

  // As set(), where it would change anything: for what follows from drawing.
  settle(patch: Partial<State>): void {
    const news = Object.entries(patch).some(([key, value]) => String(this.state[key as keyof State]) !== String(value));
    if (news) this.set(patch);
  }

  // Changes the state; a step (another view, head or text) also makes an entry in the browser's history.
  set(patch: Partial<State>, step = false): void {
    if (step) this.write("replaceState");
    this.unread = this.unread.filter((name) => !(name in patch));
    this.state = { ...this.state, ...patch };
    if (step) this.write("pushState");
    else this.writing ||= setTimeout(() => this.write("replaceState"), ADDRESS_MS);
    this.draw();
  }

  // Browsers refuse to be told a new address at every step of a slider.
  private writing = 0;
  private write(how: "pushState" | "replaceState"): void {
    clearTimeout(this.writing);
    this.writing = 0;
    const address = `#${formatState(this.state)}`;
    if (address.length > ADDRESS_MAX || address === (location.hash || "#")) return;
    history[how](null, "", address);
  }

  address(): string {
    this.write("replaceState");
    return location.href;
  }

  onReadout(tell: (text: string, aloud: boolean) => void): void {
    this.tell = tell;
  }
  // One line about what is under the pointer; aloud: also to a screen reader (the keyboard moved there).
  readout(text: string, aloud = false): void {
    this.tell(text, aloud);
  }

  // Whoever wants to know that something was made of maps before all was.
  private part = (): void => {};
  onPart(part: () => void): void {
    this.part = part;
  }

  overview(): Entry {
    return this.cache.want(overviewRequest(this.state, INITIAL.tau));
  }

  // What is made of the overview so far; the layers named come first, and nothing else where they are waited for.
  derived(overview: Answer, first: Iterable<number> = [], alone = false): Derived {
    const { special } = this.state;
    const { deriver } = this;
    for (const l of first) deriver.similarity(overview, l, special);
    if (!alone) {
      for (const l of overview.layers.keys()) deriver.similarity(overview, l, special);
      for (const l of overview.layers.keys()) deriver.levels(overview, l, special);
    }
    return deriver.of(overview);
  }

  // A layer's attention maps as bytes, one a head, with those it travels with; null until they are here.
  attention(overview: Answer, l: number, state: Asked = this.state): Uint8Array[] | null {
    const { layers, heads, encoding } = overview;
    const together = this.blocks(overview).get(l) ?? this.together(overview, this.after(overview, l), BLOCK_BYTES).get(l)!;
    const block = this.cache.want(attentionRequest(state, together.map((k) => layers[k]!))).answer;
    if (!block) return null;
    const stack = block.attentions as Uint8Array;
    const at = together.indexOf(l);
    const size = heads.length * encoding.ids.length ** 2;
    this.deriver.profiles(overview, l, stack.subarray(at * size, (at + 1) * size));
    return heads.map((_, h) => partAt(stack, block, at, h));
  }

  // Which layers' maps travel together, by layer.
  private readonly travelling = new WeakMap<Answer, Map<number, readonly number[]>>();
  private blocks(overview: Answer): Map<number, readonly number[]> {
    let blocks = this.travelling.get(overview);
    if (!blocks) this.travelling.set(overview, (blocks = new Map()));
    return blocks;
  }

  // Layers that are asked for in as few requests as may be: of a long text each is a pass of its own.
  together(overview: Answer, wanted: readonly number[], bytes = SIGHT_BYTES): Map<number, readonly number[]> {
    const blocks = this.blocks(overview);
    const most = Math.max(1, Math.floor(bytes / (overview.heads.length * overview.encoding.ids.length ** 2)));
    const free = wanted.filter((l) => !blocks.has(l));
    for (let from = 0; from < free.length; from += most) {
      const block = free.slice(from, from + most);
      for (const l of block) blocks.set(l, block);
    }
    return blocks;
  }

  // The layers from l on.
  private after({ layers }: Answer, l: number): number[] {
    return [...layers.keys()].slice(l);
  }

  // How many layers and heads there are, by the answer or by the server's list; null before either is here.
  shape(answer: Answer | null, model: string): Shape | null {
    if (answer) return { layers: answer.layers.length, heads: answer.heads.length };
    const known = model ? this.models.find(({ name }) => name === model) : this.models[0];
    return known ? { layers: known.num_layers, heads: known.num_heads } : null;
  }

  // The chosen layer and head, as far as the model has them.
  selection(
    answer: Answer | null,
    { layer, head }: Selection = this.state,
    model: string = this.state.model,
  ): Selection {
    const { layers, heads } = this.shape(answer, model) ?? { layers: Infinity, heads: Infinity };
    return {
      layer: layer < 0 ? (Number.isFinite(layers) ? layers - 1 : -1) : Math.min(layer, layers - 1),
      head: head === SUM ? SUM : Math.min(head, heads - 1),
    };
  }

  // One head exactly. Until it is known which there are, the overview stands for it, which has no answer then.
  exactly(asked: Asked, { layer, head }: Selection, measures: Measures = PLAIN): Entry {
    const overview = overviewRequest(asked, INITIAL.tau);
    const known = this.shape(this.cache.peek(overview), asked.model);
    return this.cache.want(known ? headRequest(asked, layer, head, measures) : overview);
  }

  // What the address names and the model lacks, in words; empty when it names nothing of the kind.
  missing(answer: Answer): string {
    const { layer, head, layer2, head2, view, against, beside, edits, at, depth } = this.state;
    const second = view === "compare" && (against === "head" || against === "off");
    const experiment = view === "experiment";
    const lacks = (name: string, asked: number[], has: number, owner: string, then: string): string => {
      const beyond = asked.find((n) => n >= has);
      return beyond === undefined
        ? ""
        : `The address names ${name} ${beyond}; ${owner} has ${has} ${name}s, counted from 0. ${then} `;
    };
    const { model, layers, heads, encoding } = answer;
    const [stands, left] = ["The last stands in for it.", "It is left out."];
    return (
      this.unread.map((name) => `The address gives “${name}” something that cannot be read; it stands as it does at first. `).join("") +
      lacks("layer", [layer, ...(second ? [layer2] : []), ...(experiment ? [depth] : [])], layers.length, model, stands) +
      lacks("head", second ? [head, head2] : [head], heads.length, model, stands) +
      (experiment
        ? lacks("layer", edits.map((e) => e.layer), layers.length, model, left) +
          lacks("head", edits.map((e) => e.head), heads.length, model, left) +
          lacks("token", [at], encoding.ids.length, "the text", left)
        : "") +
      (view === "text"
        ? lacks("layer", beside.map(([l]) => l), layers.length, model, left) +
          lacks("head", beside.map(([, h]) => h), heads.length, model, left)
        : "")
    ).trim();
  }

  // The head on screen: exact as soon as its answer is here, until then from the overview's bytes, which have the plain
  // measures alone.
  head(measures: Measures = PLAIN): { head: Head | null; entry: Entry; selection: Selection } {
    const overview = this.overview();
    const selection = this.selection(overview.answer);
    const entry = this.exactly(this.state, selection, measures);
    if (entry.answer) return { head: this.exactHead(entry.answer), entry, selection };
    const maps = overview.answer && isPlain(measures) && this.attention(overview.answer, selection.layer);
    const rough = maps && selection.head !== SUM ? this.roughHead(overview.answer!, maps, selection) : null;
    return { head: rough, entry, selection };
  }

  // The parts of something to save that are the same in every view. `request`: what gives the arrays seen.
  exported(answer: Answer, name: string, request: AnalyzeRequest): Omit<Exportable, "picture" | "rows"> {
    const { model, sha256 } = answer;
    const precision = precisionOf(this.models, model);
    return {
      name: `headscope-${model}-${name}`,
      title: `headscope · ${model}${precision && `, ${precision}`} (sha256 ${sha256.slice(0, 12)}) · ${name} · “${visible(request.text!.slice(0, 80))}${request.text!.length > 80 ? "…" : ""}”`,
      provenance: { tool: "headscope", model, model_sha256: sha256, request, page: this.address() },
    };
  }

  // Arrays of several heads: all of their layers and heads, for a request names these apart.
  savedHeads(selections: readonly Selection[], outputs: AnalyzeRequest["outputs"]): AnalyzeRequest {
    const [first] = selections;
    if (first!.head === SUM) return savedRequest(this.state, [first!.layer], SUM, outputs);
    const each = (numbers: number[]): number[] => [...new Set(numbers)].sort((a, b) => a - b);
    return savedRequest(this.state, each(selections.map(({ layer }) => layer)), each(selections.map(({ head }) => head)), outputs);
  }

  private readonly heads = new WeakMap<Answer, Map<string, Head>>();
  private remember(answer: Answer, key: string, make: () => Head): Head {
    let known = this.heads.get(answer);
    if (!known) this.heads.set(answer, (known = new Map()));
    const full = `${key} ${this.state.special} ${this.state.words}`;
    let head = known.get(full);
    if (!head) {
      if (known.size > 8) known.clear();
      known.set(full, (head = make()));
    }
    return head;
  }

  exactHead(answer: Answer): Head {
    return this.remember(answer, "", () => headOf(answer, this.state));
  }
  private roughHead(answer: Answer, maps: Uint8Array[], { layer, head }: Selection): Head {
    return this.remember(answer, `${layer} ${head}`, () => roughHeadOf(answer, maps[head]!, layer, head, this.state));
  }

  // What is known of each head: its figures, and its profile once its map was here.
  private joined: { counted: Summary[][]; made: number; heads: Known[][] } | null = null;
  figures(overview: Answer): Known[][] {
    const counted = this.counted(overview);
    const { profiles, made } = this.deriver.of(overview);
    if (this.joined?.counted !== counted || this.joined.made !== made) {
      const H = overview.heads.length;
      const heads = counted.map((row, l) => row.map((s, h): Known => ({ ...s, profile: profiles[l * H + h] })));
      this.joined = { counted, made, heads };
    }
    return this.joined.heads;
  }

  // Each head's figures at the threshold of the moment: exact when known, else counted here from half precision.
  private settled = INITIAL.tau;
  private settling = { tau: INITIAL.tau, timer: 0 };
  private rough: { answer: Answer; tau: number; made: number; figures: Summary[][] } | null = null;
  private counted(overview: Answer): Summary[][] {
    const { tau } = this.state;
    if (tau === INITIAL.tau) return overview.summary!;
    const request = summaryRequest(this.state);
    const exact = this.settled === tau ? this.cache.want(request).answer : this.cache.peek(request);
    if (exact?.summary) return exact.summary;
    if (this.settled !== tau && this.settling.tau !== tau) {
      clearTimeout(this.settling.timer);
      const settle = (): void => {
        this.settled = tau;
        this.draw();
      };
      this.settling = { tau, timer: setTimeout(settle, SETTLE_MS) };
    }
    // The overview orders them itself, what is in sight first.
    const { levels, made } = this.state.view === "overview" ? this.deriver.of(overview) : this.derived(overview);
    if (this.rough?.answer !== overview || this.rough.tau !== tau || this.rough.made !== made) {
      const H = overview.heads.length;
      const figures = overview.summary!.map((row, l) =>
        row.map((known, h) => {
          const counted = levels[l * H + h];
          return counted ? { ...known, ...figuresAt(counted, tau) } : known;
        }),
      );
      this.rough = { answer: overview, tau, made, figures };
    }
    return this.rough.figures;
  }
}
