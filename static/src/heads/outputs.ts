// The outputs that an overview's similarities are computed from, and a head made of them.
import { partAt, type Answer } from "../app/answer";
import type { Head } from "../maps/analysis";
import { headFrom, type Lens } from "../maps/axis";
import { centre, fromHalves, similarityOf } from "./similarity";

export type Outputs = Pick<Answer, "encoding" | "layers" | "heads" | "headOutputs" | "centred">;

// A head's outputs as the similarities of an overview's answer have them: centred if those are.
export function outputsAt(overview: Outputs, l: number, h: number): Float32Array {
  const outputs = fromHalves(partAt(overview.headOutputs as Uint16Array, overview, l, h));
  return overview.centred ? centre(outputs, overview.encoding.ids.length) : outputs;
}

// A head from the overview's answer, drawn at once while the exact answer is on its way.
export function roughHeadOf(
  overview: Outputs & Pick<Answer, "source">,
  attention: Uint8Array,
  l: number,
  h: number,
  lens: Lens,
): Head {
  const T = overview.encoding.ids.length;
  const outputs = overview.headOutputs && outputsAt(overview, l, h); // none: of a file without them
  const S = outputs ? similarityOf(outputs, T) : new Float32Array(T * T);
  const own = overview.centred ? null : outputs;
  return { ...headFrom(attention, 1 / 255, S, own, overview, lens, null), exact: false };
}
