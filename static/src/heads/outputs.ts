// The outputs that an overview's similarities are computed from.
import { partAt, type Answer } from "../app/answer";
import { centre, fromHalves } from "./similarity";

// A head's outputs as the similarities of an overview's answer have them: centred if those are.
export function outputsAt(overview: Answer, l: number, h: number): Float32Array {
  const outputs = fromHalves(partAt(overview.headOutputs as Uint16Array, overview, l, h));
  return overview.centred ? centre(outputs, overview.encoding.ids.length) : outputs;
}
