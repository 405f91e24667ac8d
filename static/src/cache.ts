// Answers by request: asked for by whoever draws, fetched once, dropped least recently used first. A request
// still under way that nothing on screen wants any more is cancelled.
import { analyze, Problem, type Progress } from "./api";
import type { Answer } from "./answer";
import type { AnalyzeRequest } from "./requests";

export interface Entry {
  readonly request: AnalyzeRequest;
  status: "loading" | "ready" | "failed" | "cancelled";
  answer: Answer | null;
  problem: Problem | null;
  progress: Progress;
  started: number; // performance.now()
}

interface Held extends Entry {
  controller: AbortController;
  wanted: boolean;
}

const BYTES_MAX = 160e6;

export class Cache {
  private readonly entries = new Map<string, Held>(); // oldest use first

  constructor(private readonly changed: () => void) {}

  want(request: AnalyzeRequest): Entry {
    const key = JSON.stringify(request);
    const entry = this.entries.get(key) ?? this.start(request);
    entry.wanted = true;
    this.entries.delete(key);
    this.entries.set(key, entry);
    return entry;
  }

  // What is there already, without asking for it.
  peek(request: AnalyzeRequest): Answer | null {
    return this.entries.get(JSON.stringify(request))?.answer ?? null;
  }

  private start(request: AnalyzeRequest): Held {
    const entry: Held = {
      request,
      status: "loading",
      answer: null,
      problem: null,
      progress: { received: 0, total: 0 },
      started: performance.now(),
      controller: new AbortController(),
      wanted: true,
    };
    void this.fetch(entry);
    return entry;
  }

  private async fetch(entry: Held): Promise<void> {
    const { signal } = entry.controller;
    try {
      entry.answer = await analyze(entry.request, signal, (progress) => {
        entry.progress = progress;
        this.changed();
      });
      entry.status = "ready";
    } catch (error) {
      entry.status = signal.aborted ? "cancelled" : "failed";
      if (!signal.aborted)
        entry.problem = error instanceof Problem ? error : new Problem(0, "Unreadable answer", String(error));
    }
    this.changed();
  }

  cancel(entry: Entry): void {
    (entry as Held).controller.abort();
  }

  retry(entry: Entry): void {
    this.entries.delete(JSON.stringify(entry.request));
    this.changed();
  }

  // Called after each drawing: what was not wanted in it and is not there yet is given up.
  sweep(): void {
    let bytes = 0;
    for (const [key, entry] of [...this.entries].reverse()) {
      if (!entry.wanted && entry.status === "loading") entry.controller.abort();
      bytes += entry.answer?.bytes ?? 0;
      const dead = entry.status !== "ready" && !entry.wanted;
      if (dead || (bytes > BYTES_MAX && !entry.wanted)) this.entries.delete(key);
    }
  }

  // Before each drawing.
  begin(): void {
    for (const entry of this.entries.values()) entry.wanted = false;
  }
}
