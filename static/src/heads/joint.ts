// A cross head over both of its texts at once, as the view Text shows it: the tokens of the text, then those of the target,
// which attend to them. No other entries attend.
import { isRectangular, type Axis, type Head } from "../maps/analysis";
import { perObject } from "../app/per-object";

export const TARGET = 2; // token type of the target; the text and its second segment have 0 and 1

export const isOfTarget = ({ types }: Pick<Axis, "types">, t: number): boolean => types[t] === TARGET;

const both = <T>(text: readonly T[], target: readonly T[]): T[] => [...text, ...target];

function axisOfBoth(text: Axis, target: Axis): Axis {
  const tokens = 1 + Math.max(-1, ...text.groups.flat()); // positions of the target follow those of the text
  return {
    n: text.n + target.n,
    labels: both(text.labels, target.labels),
    groups: both(
      text.groups,
      target.groups.map((group) => group.map((t) => t + tokens)),
    ),
    unknown: both(text.unknown, target.unknown),
    keys: both(text.keys, target.keys),
    sentences: both(text.sentences, target.sentences),
    special: both(text.special, target.special),
    types: both(
      text.types,
      target.types.map(() => TARGET),
    ),
    offsets: both(text.offsets, target.offsets),
    causal: false,
    generated: both(text.generated, target.generated),
    positions: both(text.positions, target.positions),
  };
}

const known = new WeakMap<Float32Array, Float32Array>();

// The [n][m] attention of a cross head as a [m + n][m + n] map.
export function jointMap(attention: Float32Array, n: number, m: number): Float32Array {
  const made = known.get(attention);
  if (made) return made;
  const side = m + n;
  const out = new Float32Array(side * side);
  for (let i = 0; i < n; i++) out.set(attention.subarray(i * m, (i + 1) * m), (m + i) * side);
  known.set(attention, out);
  return out;
}

// Any other head as it is.
export const jointOf = perObject((head: Head): Head => {
  if (!isRectangular(head)) return head;
  const axis = axisOfBoth(head.columns, head.axis);
  const nothing = new Float32Array(axis.n ** 2); // similarities are within the target
  return {
    ...head,
    axis,
    columns: axis,
    attention: jointMap(head.attention, head.axis.n, head.columns.n),
    weighted: null,
    similarity: nothing,
    normalized: nothing,
    own: null,
    maximum: NaN,
  };
});
