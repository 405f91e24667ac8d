// The views. Each registers itself, in a file "view.ts" of its folder.
import type { FunctionComponent } from "preact";
import { SECTIONS, type Section, type View } from "./state";
import { capital } from "./words";

export interface Registered {
  component: FunctionComponent;
  // The element that takes the keyboard's focus: undefined for the last one, null while it is not drawn yet.
  entrance?: (root: HTMLElement) => HTMLElement | null | undefined;
  ofRuns?: true; // it shows corpus runs in place of one text
}

const REGISTERED = new Map<View, Registered>();

export const addView = (name: View, view: Registered): void => void REGISTERED.set(name, view);

export function viewOf(name: View): Registered {
  const view = REGISTERED.get(name);
  if (!view) throw new Error(`The view ${name} is not registered.`);
  return view;
}

const OF_ONE_HEAD: readonly View[] = ["head", "text", "pairs"];
export const isOfOneHead = (name: View): boolean => OF_ONE_HEAD.includes(name);

export const isOfText = (name: View): boolean => !REGISTERED.get(name)?.ofRuns;

// A view by its name on the page: that of its section, if it has no other parts.
const NAMES: Partial<Record<View, string>> = { overview: "Heads", head: "Maps" };
export const nameOfView = (view: View): string => NAMES[view] ?? capital(view);

export const partsOf = (section: Section): readonly View[] => SECTIONS[section];
export const sectionOf = (view: View): Section =>
  (Object.keys(SECTIONS) as Section[]).find((section) => partsOf(section).includes(view)) ?? "Heads";
