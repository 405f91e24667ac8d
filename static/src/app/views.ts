// Facts about a view, by its name.
import { SECTIONS, type Section, type View } from "./state";
import { capital } from "./words";

const OF_ONE_HEAD: readonly View[] = ["head", "text", "pairs"];
export const isOfOneHead = (name: View): boolean => OF_ONE_HEAD.includes(name);

// Corpus shows runs in place of one text.
export const isOfText = (name: View): boolean => name !== "corpus";

// A view by its name on the page: that of its section, if it has no other parts.
const NAMES: Partial<Record<View, string>> = { overview: "Heads", head: "Maps" };
export const nameOfView = (view: View): string => NAMES[view] ?? capital(view);

export const partsOf = (section: Section): readonly View[] => SECTIONS[section];
export const sectionOf = (view: View): Section =>
  (Object.keys(SECTIONS) as Section[]).find((section) => partsOf(section).includes(view)) ?? "Heads";
