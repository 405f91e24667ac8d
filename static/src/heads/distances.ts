// The distances between the heads of an answer.
import type { Answer } from "../app/answer";

// The heads nearest first, without the head itself and those that have no distance.
export function nearestOf({ distances }: Answer, place: number): { place: number; distance: number }[] {
  const n = Math.sqrt(distances!.length);
  return Array.from({ length: n }, (_, other) => ({ place: other, distance: distances![place * n + other]! }))
    .filter((one) => one.place !== place && !Number.isNaN(one.distance))
    .sort((a, b) => a.distance - b.distance || a.place - b.place);
}
