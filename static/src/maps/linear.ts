// A linear scale: from 0 to the largest value, or for values of both signs as far below 0.
import { MIDDLE, type Lut } from "./colour";
import type { Bar } from "./colour-bar";
import { signedTicksOf, ticksOf, wordsOf } from "./scale";

// Returns the place of each value on the colours, 0..1. With both signs, 0 is in the middle.
export function placesUpTo(top: number, signed = false): (value: number) => number {
  const share = (value: number): number => (top > 0 ? value / top : 0);
  return signed ? (value) => (MIDDLE + share(value) * (255 - MIDDLE)) / 255 : share;
}

export const linearBar = (label: string, lut: Lut, top: number, signed = false): Bar => ({
  label,
  lut,
  ticks: signed ? signedTicksOf(top, "linear") : ticksOf(top, "linear"),
  words: wordsOf("linear", signed ? -top : 0, top),
});
