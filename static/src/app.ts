// state -> requests -> answers -> views. The one place where state changes.
import { Cache, type Entry } from "./cache";
import type { Model } from "./api";
import type { Answer, Summary } from "./answer";
import type { Head } from "./analysis";
import type { Theme } from "./colour";
import { perFrame } from "./dom";
import type { Exportable } from "./export";
import { headOf, roughHeadOf } from "./lens";
import { headRequest, overviewRequest, summaryRequest } from "./requests";
import { roughSummary } from "./rough";
import { formatState, INITIAL, parseState, SUM, type State } from "./state";

export interface Selection {
  layer: number;
  head: number;
}
export const nameOf = ({ layer, head }: Selection): string => `l${layer}-${head === SUM ? "sum" : `h${head}`}`;

const ADDRESS_MS = 150;
const ADDRESS_MAX = 1_500_000; // longer ones no browser takes: such a text cannot be shared as a link

export class App {
  state: State = parseState(location.hash);
  models: Model[] = [];
  theme: Theme = "light";
  readonly cache: Cache;
  readonly draw: () => void;
  private tell: (text: string, aloud: boolean) => void = () => {};

  constructor(private readonly render: () => void) {
    this.draw = perFrame(() => {
      this.cache.begin();
      this.render();
      this.cache.sweep();
    });
    this.cache = new Cache(this.draw);
    addEventListener("popstate", () => this.reload());
    addEventListener("hashchange", () => this.reload());
  }

  private reload(): void {
    this.state = parseState(location.hash);
    this.draw();
  }

  // Changes the state; a step (another view, head or text) also makes an entry in the browser's history.
  set(patch: Partial<State>, step = false): void {
    if (step) this.write("replaceState");
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

  overview(): Entry {
    return this.cache.want(overviewRequest(this.state, INITIAL.tau));
  }

  // The chosen layer and head, as far as the model has them.
  selection(answer: Answer | null, layer = this.state.layer, head = this.state.head): Selection {
    const layers = answer?.layers.length ?? Infinity,
      heads = answer?.heads.length ?? Infinity;
    return {
      layer: layer < 0 ? (Number.isFinite(layers) ? layers - 1 : -1) : Math.min(layer, layers - 1),
      head: head === SUM ? SUM : Math.min(head, heads - 1),
    };
  }

  // The head on screen: exact as soon as its answer is here, until then from the overview's bytes.
  head(): { head: Head | null; entry: Entry; selection: Selection } {
    const overview = this.overview();
    const selection = this.selection(overview.answer);
    const entry = this.cache.want(headRequest(this.state, selection.layer, selection.head));
    if (entry.answer) return { head: this.exactHead(entry.answer), entry, selection };
    const rough = overview.answer && selection.head !== SUM ? this.roughHead(overview.answer, selection) : null;
    return { head: rough, entry, selection };
  }

  // The parts of something to save that are the same in every view.
  exported(entry: Entry, name: string): Omit<Exportable, "picture" | "rows"> {
    const { model, sha256 } = entry.answer!;
    const { request } = entry;
    return {
      name: `headscope-${model}-${name}`,
      title: `headscope · ${model} (sha256 ${sha256.slice(0, 12)}) · ${name} · “${request.text.slice(0, 80)}${request.text.length > 80 ? "…" : ""}”`,
      provenance: { tool: "headscope", model, model_sha256: sha256, request, page: this.address() },
    };
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
  private roughHead(answer: Answer, { layer, head }: Selection): Head {
    return this.remember(answer, `${layer} ${head}`, () => roughHeadOf(answer, layer, head, this.state));
  }

  // Each head's figures at the threshold of the moment: exact when known, else from the overview's bytes.
  private settled = INITIAL.tau;
  private settling = 0;
  private rough: { answer: Answer; tau: number; figures: Summary[][] } | null = null;
  figures(overview: Answer): Summary[][] {
    const { tau } = this.state;
    if (tau === INITIAL.tau) return overview.summary!;
    const request = summaryRequest(this.state);
    const exact = this.settled === tau ? this.cache.want(request).answer : this.cache.peek(request);
    if (exact?.summary) return exact.summary;
    if (this.settled !== tau) {
      clearTimeout(this.settling);
      this.settling = setTimeout(() => {
        this.settled = tau;
        this.draw();
      }, 250);
    }
    if (this.rough?.answer !== overview || this.rough.tau !== tau)
      this.rough = { answer: overview, tau, figures: roughSummary(overview, tau) };
    return this.rough.figures;
  }
}
