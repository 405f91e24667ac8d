// The profiles of all heads as the service counts them.
import { partAt, type Answer } from "../app/answer";
import { kindsOf, profileFrom, REACH, type Profile } from "./patterns";

const WIDTH = 2 * REACH + 1;

// By layer * heads + head; none if the answer has none.
export function profilesOf(answer: Answer): Profile[] {
  const { profiles, layers, heads, encoding, parts } = answer;
  if (!profiles.offsets) return [];
  const T = encoding.ids.length;
  const kinds = kindsOf(encoding);
  const offsets = Array.from(profiles.offsets);
  return layers.flatMap((_, l) =>
    heads.map((_, h): Profile => {
      const at = l * heads.length + h;
      const of = (name: string): number => profiles[name]?.[at] ?? NaN;
      const column = parts.attention && partAt(parts.attention, answer, l, h);
      const first = column ? column.reduce((sum, v) => sum + v, 0) / T : of("first");
      return profileFrom(of, offsets.slice(at * WIDTH, (at + 1) * WIDTH), first, T, kinds);
    }),
  );
}
