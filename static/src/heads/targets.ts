// The tokens that a token attends to most.
const LISTED = 3;

export const topTargets = (attention: ArrayLike<number>, n: number, i: number): { j: number; value: number }[] =>
  Array.from({ length: n }, (_, j) => ({ j, value: attention[i * n + j]! }))
    .sort((a, b) => b.value - a.value)
    .slice(0, LISTED);
