// The changes of an experiment: at most one intervention a head, for the address, the request and the page.
import type { Intervention } from "../../../build/openapi";
import type { App } from "../app/app";
import { STACKS, type Stack } from "../app/state";

// Patches come from a second text, vectors to add from elsewhere, and distances to cut at from a field: the page has none.
type Kind = Exclude<Intervention["kind"], "patch" | "add" | "cut">;

export interface Edit {
  kind: Kind;
  layer: number;
  head: number;
  factor: number; // of scale; 0 otherwise
  stack?: Stack; // if it is not the chosen one
}

interface About {
  letter: string; // in the address
  name: string;
  sign: string; // on the head's switch; a scale's factor follows it
  does: string; // the same
  title: string;
}

export const KINDS: Record<Kind, About> = {
  zero: {
    letter: "z",
    name: "Switch off",
    sign: "off",
    does: "switched off",
    title: "zero: the head’s output is 0",
  },
  scale: {
    letter: "x",
    name: "Scale",
    sign: "×",
    does: "scaled by ",
    title: "scale: the head’s output times a factor",
  },
  mean: {
    letter: "m",
    name: "Mean",
    sign: "mean",
    does: "set to its mean",
    title: "mean: every token gets the head’s mean output over the text",
  },
  uniform: {
    letter: "u",
    name: "Uniform",
    sign: "even",
    does: "made to attend evenly",
    title: "uniform: the map is replaced by an even spread",
  },
  identity: {
    letter: "i",
    name: "Identity",
    sign: "self",
    does: "made to attend to itself",
    title: "identity: each token attends to itself alone",
  },
};
export const KIND_NAMES = Object.keys(KINDS) as Kind[];

const factorOf = ({ kind, factor }: Edit): string => (kind === "scale" ? String(factor) : "");
export const signOf = (edit: Edit): string => KINDS[edit.kind].sign + factorOf(edit);
export const doesOf = (edit: Edit): string => KINDS[edit.kind].does + factorOf(edit);

const LETTERS: Record<Stack, string> = { encoder: "E", decoder: "D", cross: "C" };

// "z5.1_x7.3.0.5_zC2.0": letter, stack if it is another one, layer, head, and a scale's factor.
export const formatEdits = (edits: readonly Edit[]): string =>
  edits
    .map(
      ({ kind, layer, head, factor, stack }) =>
        `${KINDS[kind].letter}${stack ? LETTERS[stack] : ""}${layer}.${head}${kind === "scale" ? `.${factor}` : ""}`,
    )
    .join("_");

export function parseEdits(text: string): readonly Edit[] | undefined {
  let edits: readonly Edit[] = [];
  for (const part of text.split("_")) {
    const [, letter, other, layer, head, factor] =
      /^([a-z])([EDC]?)(\d{1,4})\.(\d{1,4})(?:\.(-?\d+(?:\.\d+)?(?:e-\d+)?))?$/.exec(part) ?? [];
    const kind = KIND_NAMES.find((name) => KINDS[name].letter === letter);
    if (!kind || (kind === "scale") !== (factor !== undefined)) return undefined;
    const stack = STACKS.find((one) => LETTERS[one] === other);
    const of = { kind, layer: Number(layer), head: Number(head), factor: Number(factor ?? 0) };
    edits = withEdit(edits, stack ? { ...of, stack } : of);
  }
  return edits;
}

// True if both are of one head.
export const same = (a: Omit<Edit, "kind" | "factor">, b: Omit<Edit, "kind" | "factor">): boolean =>
  a.layer === b.layer && a.head === b.head && a.stack === b.stack;
const before = (a: Edit, b: Edit): number =>
  (a.stack ?? "").localeCompare(b.stack ?? "") || a.layer - b.layer || a.head - b.head;

// Those of heads of the chosen stack.
export const ofChosen = (edits: readonly Edit[]): readonly Edit[] => edits.filter(({ stack }) => !stack);

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
  const others = edits.filter(({ layer, stack }) => layer !== edit.layer || stack !== edit.stack);
  const done = whole.every((one) => edits.some((e) => same(e, one) && e.kind === one.kind && e.factor === one.factor));
  return done ? others : [...others, ...whole].sort(before);
}

// As the service wants them: heads of a layer together.
export function requestOf(edits: readonly Edit[]): Intervention[] {
  const groups = new Map<string, Intervention & { heads: number[] }>();
  for (const { kind, layer, head, factor, stack } of edits) {
    const key = `${layer} ${kind} ${factor} ${stack}`;
    const group = groups.get(key) ?? {
      ...{ layers: [layer], heads: [], kind },
      ...(kind === "scale" ? { factor } : {}),
      ...(stack ? { stack } : {}),
    };
    group.heads.push(head);
    groups.set(key, group);
  }
  return [...groups.values()];
}

// A step of the browser's history.
export const change = (app: App, edits: readonly Edit[]): void => app.set({ edits }, true);
export const release = (app: App): void => change(app, []);

// "3 heads switched off, 1 scaled by 0.5, 2 cross heads switched off"
export function inWords(edits: readonly Edit[]): string {
  const counts = new Map<string, { n: number; edit: Edit }>();
  for (const edit of edits) {
    const key = `${edit.stack} ${doesOf(edit)}`;
    counts.set(key, { n: (counts.get(key)?.n ?? 0) + 1, edit });
  }
  return [...counts.values()]
    .map(({ n, edit }, k) => {
      const name = edit.stack ? ` ${edit.stack} head` : k ? "" : " head";
      return `${n}${name}${name && n > 1 ? "s" : ""} ${doesOf(edit)}`;
    })
    .join(", ");
}
