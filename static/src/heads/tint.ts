// A number for every head, and its colours.
import type { Bar } from "../maps/colour-bar";

export type Values = readonly (readonly (number | null)[])[]; // [l][h]; null: not known

export interface Tint {
  values: Values;
  place(this: void, value: number): number; // 0..1 of the colour bar
  bar: Bar;
}
