// Kinds of state fields: a default, how a value is written into the address and read from it, and what the control that
// sets it says.
import { capital } from "./words";

// One of the values of a choice.
export interface Choice<T extends string = string> {
  value: T;
  label: string;
  title?: string;
}

export interface Field<T> {
  initial: T;
  label?: string; // of the control; none: it is given one, or there is none
  title?: string;
  choices?: readonly Choice[];
  parse(this: void, text: string): T | undefined; // undefined: cannot be read
  format(this: void, value: T): string;
}

type Heads = readonly (readonly [layer: number, head: number])[];

export const text = (initial = ""): Field<string> => ({ initial, parse: (t) => t, format: (v) => v });

export const flag = (initial = false, label = "", title = ""): Field<boolean> => ({
  initial,
  label,
  title,
  parse: (t) => (t === "1" ? true : t === "0" ? false : undefined),
  format: (v) => (v ? "1" : "0"),
});

export const within = (initial: number, low: number, high: number, integer = false): Field<number> => ({
  initial,
  parse: (t) => {
    const v = t.trim() === "" ? NaN : Number(t);
    return v >= low && v <= high && (!integer || Number.isInteger(v)) ? v : undefined;
  },
  format: String,
});
export const integer = (initial: number, low: number, high: number): Field<number> => within(initial, low, high, true);
export const fraction = (initial: number, label = "", title = ""): Field<number> => ({
  ...within(initial, 0.01, 1),
  label,
  title,
});

// A value without a name is called as it is.
type Names<T extends string> = Partial<Record<T, string | readonly [label: string, title: string]>>;

export const oneOf = <T extends string>(
  values: readonly T[],
  initial: T,
  label = "",
  names: Names<T> = {},
  title = "",
): Field<T> => ({
  initial,
  label,
  title,
  choices: values.map((value) => {
    const [name = capital(value), about = ""] = [names[value] ?? []].flat();
    return { value, label: name, ...(about ? { title: about } : {}) };
  }),
  parse: (t) => values.find((v) => v === t),
  format: (v) => v,
});

const areIndices = (values: readonly number[]): boolean => values.every((v) => Number.isInteger(v) && v >= 0);

// Token positions, separated by dots.
export const indices = (most: number): Field<readonly number[]> => ({
  initial: [],
  parse: (t) => {
    const values = t.split(".").map(Number);
    return values.length <= most && areIndices(values) ? values : undefined;
  },
  format: (v) => v.join("."),
});

// The first column and row of a zoomed map and the cells along its side, in hundredths of a cell; [] is the whole map.
export const window: Field<readonly number[]> = {
  initial: [],
  parse: (t) => {
    const values = t.split(".").map(Number);
    const [, , span = 0] = values;
    return values.length === 3 && areIndices(values) && span > 0 ? values : undefined;
  },
  format: (v) => v.join("."),
};

// Heads as "layer.head-layer.head".
export const heads = (most: number): Field<Heads> => ({
  initial: [],
  parse: (t) => {
    const pairs = t.split("-").map((pair) => pair.split(".").map(Number));
    const valid = pairs.length <= most && pairs.every((pair) => pair.length === 2 && areIndices(pair));
    return valid ? (pairs as unknown as Heads) : undefined;
  },
  format: (v) => v.map((pair) => pair.join(".")).join("-"),
});

// The values of a set of fields.
export type ValuesOf<Fields> = { [K in keyof Fields]: Fields[K] extends Field<infer T> ? T : never };
