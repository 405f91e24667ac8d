// What the worker has made of each answer so far: similarities as bytes, figures by threshold, profiles.
import type { Answer } from "./answer";
import type { Levels } from "./levels";
import { kindsOf, type Profile } from "./patterns";
import type { Order, Reply } from "./worker";

// By place: layer * heads + head. What is not made yet is undefined.
export interface Derived {
  similarity: (Int8Array | undefined)[]; // [T][T], share of the head's largest |S| in 127ths
  levels: (Levels | undefined)[];
  profiles: (Profile | undefined)[];
  made: number; // grows with every reply
  asked: Set<string>;
}

const TOLD_MS = 120;

export class Deriver {
  private readonly worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }); // awake before it is needed
  private readonly known = new WeakMap<Answer, Derived>();
  private readonly waiting = new Map<number, { kind: Order["kind"]; derived: Derived; from: number }>();
  private orders = 0;

  // partly: a layer's maps came, and others are still being made.
  constructor(
    private readonly changed: () => void,
    private readonly partly: () => void,
  ) {
    this.worker.onmessage = ({ data }: MessageEvent<Reply>) => this.take(data);
  }

  of(overview: Answer): Derived {
    let derived = this.known.get(overview);
    if (!derived) {
      derived = { similarity: [], levels: [], profiles: [], made: 0, asked: new Set() };
      this.known.set(overview, derived);
    }
    return derived;
  }

  // A layer's similarities, once.
  similarity(overview: Answer, l: number, withSpecial: boolean): void {
    if (this.begun(overview, `similarity ${l}`)) return;
    this.order(overview, l, { kind: "similarity", ...this.outputsOf(overview, l, withSpecial) });
  }

  // A layer's figures at every threshold, once.
  levels(overview: Answer, l: number, withSpecial: boolean): void {
    if (this.begun(overview, `levels ${l}`)) return;
    const { ids, sentences } = overview.encoding;
    this.order(overview, l, { kind: "levels", ids, sentences, ...this.outputsOf(overview, l, withSpecial) });
  }

  // A layer's profiles, once, from its maps.
  profiles(overview: Answer, l: number, maps: Uint8Array): void {
    if (this.begun(overview, `attention ${l}`)) return;
    const kinds = kindsOf(overview.encoding);
    const shape = { key: this.orders++, T: overview.encoding.ids.length, H: overview.heads.length };
    this.order(overview, l, { kind: "attention", maps: maps.slice(), kinds, ...shape });
  }

  // Without a token that counts there are no pairs.
  private outputsOf({ encoding, layers, heads, headOutputs }: Answer, l: number, withSpecial: boolean) {
    const { ids, special } = encoding;
    const stack = headOutputs as Uint16Array;
    const size = stack.length / layers.length;
    const none = special.every(Boolean);
    return {
      key: this.orders++,
      T: ids.length,
      H: heads.length,
      outputs: stack.slice(l * size, (l + 1) * size),
      out: special.map((s) => none || (s && !withSpecial)),
    };
  }

  private begun(overview: Answer, name: string): boolean {
    const { asked } = this.of(overview);
    const known = asked.has(name);
    asked.add(name);
    return known;
  }

  private order(overview: Answer, l: number, order: Order): void {
    const { kind, key } = order;
    this.waiting.set(key, { kind, derived: this.of(overview), from: l * overview.heads.length });
    this.worker.postMessage(order, [order.kind === "attention" ? order.maps.buffer : order.outputs.buffer]);
  }

  private take(reply: Reply): void {
    const { derived, from } = this.waiting.get(reply.key)!;
    this.waiting.delete(reply.key);
    if (reply.kind === "similarity") reply.heads.forEach((bytes, h) => (derived.similarity[from + h] = bytes));
    else if (reply.kind === "levels") reply.heads.forEach((levels, h) => (derived.levels[from + h] = levels));
    else reply.heads.forEach((profile, h) => (derived.profiles[from + h] = profile));
    derived.made++;
    if (this.mapsAreMade(reply)) return this.tell();
    if (reply.kind !== "levels") this.partly();
    this.telling ||= setTimeout(() => this.tell(), TOLD_MS);
  }

  private mapsAreMade({ kind }: Reply): boolean {
    return kind !== "levels" && [...this.waiting.values()].every((other) => other.kind === "levels");
  }

  // Replies come layer after layer: a drawing for each would keep the page from the maps.
  private telling = 0;
  private tell(): void {
    clearTimeout(this.telling);
    this.telling = 0;
    this.changed();
  }
}
