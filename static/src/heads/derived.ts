// The worker's results for each answer: similarities as bytes, figures by threshold, attention profiles.
import { partAt, type Answer } from "../app/answer";
import { perObject } from "../app/per-object";
import type { Levels } from "./levels";
import { kindsOf, type Profile } from "./patterns";
import { profilesOf } from "./profiles";
import { visibleTokens, type Pooled } from "../maps/thumbnail";
import type { Made, Order, Pooling, Reply, Single } from "./worker";

// Indexed by layer * heads + head; undefined until it is made.
export interface Derived {
  similarity: (Int8Array | undefined)[]; // [T][T], in 127ths of the head's largest |S|
  small: Small; // copies of the maps for thumbnails of this side
  levels: (Levels | undefined)[];
  profiles: (Profile | undefined)[];
  made: number; // replies so far
  requested: Set<string>;
}

interface Small {
  side: number; // pixels; 0: no thumbnails are shown
  special: boolean; // with special tokens
  attention: (Pooled<Uint8Array> | undefined)[];
  similarity: (Pooled<Int8Array> | undefined)[];
}

const ANNOUNCE_MS = 120; // between two drawings while replies come in

export class Deriver {
  private readonly worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }); // started early
  readonly of = perObject((overview: Answer): Derived => {
    const small = { side: 0, special: true, attention: [], similarity: [] };
    const profiles = profilesOf(overview); // of a long text
    return { similarity: [], small, levels: [], profiles, made: profiles.length, requested: new Set() };
  });
  private readonly waiting = new Map<
    number,
    { kind: Order["kind"]; overview: Answer; derived: Derived; from: number }
  >();
  private readonly heads = new Map<number, (made: Made) => void>();
  private orders = 0;
  thumbnails = { side: 0, special: true }; // those on screen
  onprogress = (): void => {}; // a layer's maps came and others are still being made

  constructor(private readonly changed: () => void) {
    this.worker.onmessage = ({ data }: MessageEvent<Reply>) => this.take(data);
  }

  // Orders similarities of the first layers, then of all, then the figures of all; each once. `alone`: of the first only.
  similarities(overview: Answer, withSpecial: boolean, first: Iterable<number> = [], alone = false): Derived {
    if (!overview.headOutputs) return this.of(overview);
    for (const l of first) this.similarity(overview, l, withSpecial);
    if (!alone) {
      for (const l of overview.layers.keys()) this.similarity(overview, l, withSpecial);
      for (const l of overview.layers.keys()) this.levels(overview, l, withSpecial);
    }
    return this.of(overview);
  }

  // The copies of a head's maps for thumbnails; null if there are none, or they show other tokens.
  copiesOf(overview: Answer, l: number, h: number, withSpecial: boolean) {
    const { small } = this.of(overview);
    const at = l * overview.heads.length + h;
    const [attention, similarity] = [small.attention[at], small.similarity[at]];
    return small.special === withSpecial && attention ? { attention, similarity } : null;
  }

  private similarity(overview: Answer, l: number, withSpecial: boolean): void {
    if (this.begun(overview, `similarity ${l}`)) return;
    this.order(overview, l, { kind: "similarity", ...this.outputsOf(overview, l, withSpecial) });
  }

  // One order a head: a layer of a long text takes long, and a head at which the pointer rests would wait for it.
  private levels(overview: Answer, l: number, withSpecial: boolean): void {
    if (this.begun(overview, `levels ${l}`)) return;
    const { ids, sentences } = overview.encoding;
    for (const h of overview.heads.keys())
      this.order(overview, l, { kind: "levels", ids, sentences, ...this.outputsOf(overview, l, withSpecial, h) }, h);
  }

  // Orders one head with its pictures, and hands it to `take`. Copies: a view takes all that it is a part of along.
  head(overview: Answer, l: number, h: number, single: Single, take: (made: Made) => void): void {
    const { encoding, source, centred, headOutputs } = overview;
    const outputs = headOutputs && partAt(headOutputs as Uint16Array, overview, l, h).slice();
    const of = { encoding, source, centred, headOutputs: outputs, layers: [l], heads: [h] };
    const key = this.orders++;
    this.heads.set(key, take);
    this.worker.postMessage({ kind: "head", key, ...single, attention: single.attention.slice(), of } satisfies Order);
  }

  // Orders a layer's profiles from its attention maps, once.
  profiles(overview: Answer, l: number, maps: Uint8Array): void {
    if (this.begun(overview, `attention ${l}`)) return;
    const kinds = kindsOf(overview.encoding);
    const shape = { key: this.orders++, T: overview.encoding.ids.length, H: overview.heads.length };
    const pooling = this.poolingOf(overview);
    this.order(overview, l, { kind: "attention", maps: maps.slice(), kinds, pooling, ...shape });
  }

  private poolingOf(overview: Answer): Pooling {
    const { small } = this.of(overview);
    if (!small.side) Object.assign(small, this.thumbnails);
    const { side, special } = small;
    return { side, seen: visibleTokens(overview, special), lower: overview.encoding.causal };
  }

  // A text of special tokens alone has no pairs. `alone`: of one head, not of the layer.
  private outputsOf(overview: Answer, l: number, withSpecial: boolean, alone = -1) {
    const { encoding, layers, heads, headOutputs, centred } = overview;
    const { ids, special } = encoding;
    const stack = headOutputs as Uint16Array;
    const size = stack.length / layers.length;
    const none = special.every(Boolean);
    return {
      key: this.orders++,
      T: ids.length,
      H: alone < 0 ? heads.length : 1,
      centred,
      outputs: alone < 0 ? stack.slice(l * size, (l + 1) * size) : partAt(stack, overview, l, alone).slice(),
      pooling: this.poolingOf(overview),
      out: special.map((s) => none || (s && !withSpecial)),
    };
  }

  private begun(overview: Answer, name: string): boolean {
    const { requested } = this.of(overview);
    const known = requested.has(name);
    requested.add(name);
    return known;
  }

  private order(overview: Answer, l: number, order: Exclude<Order, { kind: "head" }>, h = 0): void {
    const { kind, key } = order;
    this.waiting.set(key, { kind, overview, derived: this.of(overview), from: l * overview.heads.length + h });
    this.worker.postMessage(order, [order.kind === "attention" ? order.maps.buffer : order.outputs.buffer]);
  }

  private take(reply: Reply): void {
    if (reply.kind === "head") {
      this.heads.get(reply.key)?.(reply.made);
      this.heads.delete(reply.key);
      return;
    }
    const order = this.waiting.get(reply.key);
    if (!order) return;
    const { derived, from } = order;
    this.waiting.delete(reply.key);
    if (reply.kind === "similarity")
      reply.heads.forEach((bytes, h) => {
        derived.similarity[from + h] = bytes;
        derived.small.similarity[from + h] = reply.small[h];
        order.overview.bytes += bytes.byteLength; // they live as long: the cache counts both
      });
    else if (reply.kind === "levels") reply.heads.forEach((levels, h) => (derived.levels[from + h] = levels));
    else
      reply.heads.forEach((profile, h) => {
        derived.profiles[from + h] = profile;
        derived.small.attention[from + h] = reply.small[h];
      });
    derived.made++;
    if (this.mapsAreMade(reply)) return this.announce();
    if (reply.kind !== "levels") this.onprogress();
    this.timer ||= setTimeout(() => this.announce(), ANNOUNCE_MS);
  }

  private mapsAreMade({ kind }: Exclude<Reply, { kind: "head" }>): boolean {
    return kind !== "levels" && this.isAtRest();
  }
  private isAtRest(): boolean {
    return [...this.waiting.values()].every(({ kind }) => kind === "levels");
  }

  // True if maps of the answer were made and none is being made.
  hasMade(overview: Answer): boolean {
    return this.of(overview).made > 0 && this.isAtRest();
  }

  // Replies come layer by layer. One drawing serves several, so that the page is free for the maps.
  private timer = 0;
  private announce(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    this.changed();
  }
}
