// Answers by request: requested while drawing, fetched once, dropped least recently used first. A request still under
// way that nothing on screen wants any more is cancelled.
import { asProblem, type Problem, type Progress } from "./api";
import type { Answer } from "./answer";
import type { AnalyzeRequest } from "./requests";

export interface Entry<A = Answer> {
  readonly request: AnalyzeRequest;
  status: "loading" | "ready" | "failed" | "cancelled";
  answer: A | null;
  problem: Problem | null;
  progress: Progress;
  started: number; // performance.now()
  cancel(this: void): void;
  retry(this: void): void;
}

interface Held<A> extends Entry<A> {
  controller: AbortController;
  inUse: boolean;
}

const BYTES_MAX = 100e6;
const LONG_TEXT = 1000; // characters
const TEXTS_MOST = 32; // that have a number; an answer whose text lost it is requested again
const REPORT_MS = 100; // between two reports of progress: each redraws the page

type Ask<A> = (request: AnalyzeRequest, signal: AbortSignal, onprogress: (progress: Progress) => void) => Promise<A>;

export class Cache<A extends { bytes: number }> {
  private readonly entries = new Map<string, Held<A>>(); // oldest use first

  constructor(
    private readonly ask: Ask<A>,
    private readonly changed: () => void,
  ) {}

  // The default model may go unnamed: with or without its name a request is the same.
  private unnamed = "";
  nameDefault(model: string): void {
    this.unnamed = model;
    const all = [...this.entries.values()];
    this.entries.clear();
    for (const entry of all) this.entries.set(this.keyOf(entry.request), entry);
  }

  private keyOf({ model, text, ...rest }: AnalyzeRequest): string {
    return JSON.stringify([rest, this.numberOf(text), model === this.unnamed ? "" : (model ?? "")]);
  }

  // A key has a long text's number in its place: each drawing asks for many requests, and a text takes a millisecond.
  private readonly numbers = new Map<string, number>();
  private numbered = 0;
  private numberOf(text: AnalyzeRequest["text"]): AnalyzeRequest["text"] | number {
    if (typeof text !== "string" || text.length < LONG_TEXT) return text;
    let number = this.numbers.get(text);
    if (number === undefined) {
      if (this.numbers.size >= TEXTS_MOST) this.numbers.clear();
      this.numbers.set(text, (number = this.numbered++));
    }
    return number;
  }

  want(request: AnalyzeRequest): Entry<A> {
    const key = this.keyOf(request);
    const entry = this.entries.get(key) ?? this.start(request);
    entry.inUse = true;
    this.entries.delete(key);
    this.entries.set(key, entry);
    return entry;
  }

  // Returns the answer if it is here, without asking for it.
  peek(request: AnalyzeRequest): A | null {
    return this.entries.get(this.keyOf(request))?.answer ?? null;
  }

  private start(request: AnalyzeRequest): Held<A> {
    const controller = new AbortController();
    const entry: Held<A> = {
      request,
      status: "loading",
      answer: null,
      problem: null,
      progress: { received: 0, total: 0 },
      started: performance.now(),
      cancel: () => controller.abort(),
      retry: () => {
        this.entries.delete(this.keyOf(request));
        this.changed();
      },
      controller,
      inUse: true,
    };
    void this.fetch(entry);
    return entry;
  }

  private async fetch(entry: Held<A>): Promise<void> {
    const { signal } = entry.controller;
    let reported = entry.started;
    try {
      entry.answer = await this.ask(entry.request, signal, (progress) => {
        entry.progress = progress;
        if (performance.now() - reported < REPORT_MS) return;
        reported = performance.now();
        this.changed();
      });
      entry.status = "ready";
    } catch (error) {
      entry.status = signal.aborted ? "cancelled" : "failed";
      if (!signal.aborted) entry.problem = asProblem(error);
    }
    this.changed();
  }

  // Drops every answer: the models behind them may have changed.
  clear(): void {
    this.entries.clear();
  }

  // Called after each drawing: cancels the requests that it did not want.
  sweep(): void {
    let bytes = 0;
    for (const [key, entry] of [...this.entries].reverse()) {
      if (!entry.inUse && entry.status === "loading") entry.controller.abort();
      bytes += entry.answer?.bytes ?? 0;
      const dead = entry.status !== "ready" && !entry.inUse;
      if (dead || (bytes > BYTES_MAX && !entry.inUse)) this.entries.delete(key);
    }
  }

  // Before each drawing.
  begin(): void {
    for (const entry of this.entries.values()) entry.inUse = false;
  }
}
