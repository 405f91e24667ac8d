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
  private worker: Worker | null = null;
  private readonly known = new WeakMap<Answer, Derived>();
  private readonly waiting = new Map<number, { derived: Derived; from: number }>();
  private orders = 0;

  constructor(private readonly changed: () => void) {}

  of(overview: Answer): Derived {
    let derived = this.known.get(overview);
    if (!derived) {
      derived = { similarity: [], levels: [], profiles: [], made: 0, asked: new Set() };
      this.known.set(overview, derived);
    }
    return derived;
  }

  // A layer's similarities and figures, once; urgent: the similarities before all else. Without a token that counts
  // there are no pairs.
  similarity(overview: Answer, l: number, withSpecial: boolean, urgent: boolean): void {
    if (this.begun(overview, `similarity ${l}`)) return;
    const { ids, sentences, special } = overview.encoding;
    const T = ids.length,
      H = overview.heads.length;
    const stack = overview.headOutputs as Uint16Array;
    const size = stack.length / (overview.layers.length * H);
    const none = special.every(Boolean);
    const heads = Array.from({ length: H }, (_, h) => stack.slice((l * H + h) * size, (l * H + h + 1) * size));
    const outputs = { key: 0, T, heads, out: special.map((s) => none || (s && !withSpecial)) };
    this.order(overview, l, { kind: "similarity", urgent, ...outputs });
    this.order(overview, l, { kind: "levels", urgent: false, ids, sentences, ...outputs });
  }

  // A layer's profiles, once, from its maps.
  profiles(overview: Answer, l: number, maps: Uint8Array[]): void {
    if (this.begun(overview, `attention ${l}`)) return;
    const { ids } = overview.encoding;
    const kinds = kindsOf(overview.encoding);
    this.order(overview, l, { kind: "attention", key: 0, urgent: false, T: ids.length, heads: maps, kinds });
  }

  private begun(overview: Answer, name: string): boolean {
    const { asked } = this.of(overview);
    const known = asked.has(name);
    asked.add(name);
    return known;
  }

  private order(overview: Answer, l: number, order: Order): void {
    const derived = this.of(overview);
    order.key = this.orders++;
    this.waiting.set(order.key, { derived, from: l * overview.heads.length });
    this.worker ??= this.start();
    this.worker.postMessage(order);
  }

  private start(): Worker {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Reply>) => this.take(data);
    return worker;
  }

  private take(reply: Reply): void {
    const { derived, from } = this.waiting.get(reply.key)!;
    this.waiting.delete(reply.key);
    if (reply.kind === "similarity") reply.heads.forEach((bytes, h) => (derived.similarity[from + h] = bytes));
    else if (reply.kind === "levels") reply.heads.forEach((levels, h) => (derived.levels[from + h] = levels));
    else reply.heads.forEach((profile, h) => (derived.profiles[from + h] = profile));
    derived.made++;
    if (reply.kind === "similarity") this.changed();
    else this.telling ||= setTimeout(() => this.tell(), TOLD_MS);
  }

  // Figures come layer after layer: a drawing for each would keep the page from the maps.
  private telling = 0;
  private tell(): void {
    this.telling = 0;
    this.changed();
  }
}
