// The distances between the heads of an answer, and their places in the plane.
import type { Answer } from "../app/answer";
import type { Plane } from "./mds";
import type { PlaneOrder, PlaneReply } from "./plane-worker";

export interface Placed {
  heads: readonly number[]; // by place, layer * heads + head: those that have distances
  plane: Plane;
}

// The heads nearest first, without the head itself and those that have no distance.
export function nearestOf({ distances }: Answer, place: number): { place: number; distance: number }[] {
  const n = Math.sqrt(distances!.length);
  return Array.from({ length: n }, (_, other) => ({ place: other, distance: distances![place * n + other]! }))
    .filter((one) => one.place !== place && !Number.isNaN(one.distance))
    .sort((a, b) => a.distance - b.distance || a.place - b.place);
}

// A head with the same output for all tokens has no distances.
export function measured(distances: Float32Array): { heads: number[]; D: Float32Array } {
  const n = Math.sqrt(distances.length);
  const all = Array.from({ length: n }, (_, k) => k);
  const heads = all.filter((i) => all.some((j) => j !== i && !Number.isNaN(distances[i * n + j]!)));
  return { heads, D: Float32Array.from(heads.flatMap((i) => heads.map((j) => distances[i * n + j]!))) };
}

export class Planner {
  private worker: Worker | null = null;
  private readonly known = new WeakMap<Answer, Placed | null>();
  private readonly waiting = new Map<number, { answer: Answer; heads: readonly number[] }>();
  private orders = 0;

  constructor(private readonly changed: () => void) {}

  // Null until it is laid out.
  of(answer: Answer): Placed | null {
    const placed = this.known.get(answer);
    if (placed !== undefined) return placed;
    this.known.set(answer, null);
    const { heads, D } = measured(answer.distances!);
    const key = this.orders++;
    this.waiting.set(key, { answer, heads });
    this.worker ??= this.start();
    this.worker.postMessage({ key, D, n: heads.length } satisfies PlaneOrder);
    return null;
  }

  private start(): Worker {
    const worker = new Worker(new URL("./plane-worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data: { key, plane } }: MessageEvent<PlaneReply>) => {
      const { answer, heads } = this.waiting.get(key)!;
      this.waiting.delete(key);
      this.known.set(answer, { heads, plane });
      this.changed();
    };
    return worker;
  }
}
