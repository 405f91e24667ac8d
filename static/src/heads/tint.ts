// A number for every head, and its colours.
import type { Lut } from "../maps/colour";
import type { Bar } from "../maps/colour-bar";
import { linearBar, placesUpTo } from "../maps/linear";
import { sizeOf } from "../maps/scale";

export type Values = readonly (readonly (number | null)[])[]; // [l][h]; null: not known

export interface Tint {
  values: Values;
  place(this: void, value: number): number; // 0..1 of the colour bar
  bar: Bar;
}

// Linear colours up to the largest value in size, `top`. With both signs, 0 is in the middle.
export function linearTint(values: Values, label: string, lut: Lut, signed = false): Tint & { top: number } {
  const top = sizeOf(values.flat().map((value) => value ?? 0));
  return { values, place: placesUpTo(top, signed), bar: linearBar(label, lut, top, signed), top };
}
