// The changes of an experiment: at most one intervention a head, for the address, the request and the page.
import type { Intervention } from "../../../build/openapi";
import type { App } from "../app/app";

// Patches come from a second text, which the page does not have.
type Kind = Exclude<Intervention["kind"], "patch">;

export interface Edit {
  kind: Kind;
  layer: number;
  head: number;
  factor: number; // of scale; 0 otherwise
}

interface About {
  letter: string; // in the address
  name: string;
  sign: (factor: number) => string; // on the head's switch
  does: (factor: number) => string;
  title: string;
}

export const KINDS: Record<Kind, About> = {
  zero: {
    letter: "z",
    name: "Switch off",
    sign: () => "off",
    does: () => "switched off",
    title: "zero: the head’s output is 0",
  },
  scale: {
    letter: "x",
    name: "Scale",
    sign: (factor) => `×${factor}`,
    does: (factor) => `scaled by ${factor}`,
    title: "scale: the head’s output times a factor",
  },
  mean: {
    letter: "m",
    name: "Mean",
    sign: () => "mean",
    does: () => "set to its mean",
    title: "mean: every token gets the head’s mean output over the text",
  },
  uniform: {
    letter: "u",
    name: "Uniform",
    sign: () => "even",
    does: () => "made to attend evenly",
    title: "uniform: the map is replaced by an even spread",
  },
  identity: {
    letter: "i",
    name: "Identity",
    sign: () => "self",
    does: () => "made to attend to itself",
    title: "identity: each token attends to itself alone",
  },
};
export const KIND_NAMES = Object.keys(KINDS) as Kind[];

export const signOf = ({ kind, factor }: Edit): string => KINDS[kind].sign(factor);
export const doesOf = ({ kind, factor }: Edit): string => KINDS[kind].does(factor);

// "z5.1_x7.3.0.5": letter, layer, head, and a scale's factor.
export const formatEdits = (edits: readonly Edit[]): string =>
  edits
    .map(
      ({ kind, layer, head, factor }) => `${KINDS[kind].letter}${layer}.${head}${kind === "scale" ? `.${factor}` : ""}`,
    )
    .join("_");

export function parseEdits(text: string): readonly Edit[] | undefined {
  let edits: readonly Edit[] = [];
  for (const part of text.split("_")) {
    const [, letter, layer, head, factor] =
      /^([a-z])(\d{1,4})\.(\d{1,4})(?:\.(-?\d+(?:\.\d+)?(?:e-\d+)?))?$/.exec(part) ?? [];
    const kind = KIND_NAMES.find((name) => KINDS[name].letter === letter);
    if (!kind || (kind === "scale") !== (factor !== undefined)) return undefined;
    edits = withEdit(edits, { kind, layer: Number(layer), head: Number(head), factor: Number(factor ?? 0) });
  }
  return edits;
}

const same = (a: Edit, b: Edit): boolean => a.layer === b.layer && a.head === b.head;
const before = (a: Edit, b: Edit): number => a.layer - b.layer || a.head - b.head;

// In place of what the head had.
const withEdit = (edits: readonly Edit[], edit: Edit): readonly Edit[] =>
  [...edits.filter((other) => !same(other, edit)), edit].sort(before);

// A head changed so already is released.
export function toggled(edits: readonly Edit[], edit: Edit): readonly Edit[] {
  const there = edits.find((other) => same(other, edit));
  return there && there.kind === edit.kind && there.factor === edit.factor
    ? edits.filter((other) => other !== there)
    : withEdit(edits, edit);
}

// All heads of a layer: released when every one is changed so.
export function toggledLayer(edits: readonly Edit[], heads: number, edit: Omit<Edit, "head">): readonly Edit[] {
  const whole = Array.from({ length: heads }, (_, head): Edit => ({ ...edit, head }));
  const others = edits.filter(({ layer }) => layer !== edit.layer);
  const done = whole.every((one) => edits.some((e) => same(e, one) && e.kind === one.kind && e.factor === one.factor));
  return done ? others : [...others, ...whole].sort(before);
}

// As the service wants them: heads of a layer together.
export function requestOf(edits: readonly Edit[]): Intervention[] {
  const groups = new Map<string, Intervention & { heads: number[] }>();
  for (const { kind, layer, head, factor } of edits) {
    const key = `${layer} ${kind} ${factor}`;
    const group = groups.get(key) ?? { layers: [layer], heads: [], kind, ...(kind === "scale" ? { factor } : {}) };
    group.heads.push(head);
    groups.set(key, group);
  }
  return [...groups.values()];
}

// A step of the browser's history.
export const change = (app: App, edits: readonly Edit[]): void => app.set({ edits }, true);
export const release = (app: App): void => change(app, []);

// "3 heads switched off, 1 scaled by 0.5"
export function inWords(edits: readonly Edit[]): string {
  const counts = new Map<string, number>();
  for (const edit of edits) counts.set(doesOf(edit), (counts.get(doesOf(edit)) ?? 0) + 1);
  return [...counts].map(([does, n], k) => `${n}${k ? "" : n > 1 ? " heads" : " head"} ${does}`).join(", ");
}
