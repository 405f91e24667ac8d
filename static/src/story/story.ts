// A story: views in an order, each with a title, a caption and the picture of the moment when it was added, and notes on
// heads and cells. It is kept in this browser, and leaves it only in the file that is saved.
import type { App } from "../app/app";
import { perObject } from "../app/per-object";
import { keep, kept } from "../app/storage";

export interface Step {
  view: string; // the fragment of the address, which restores the view
  title: string;
  caption: string;
  picture: string; // SVG; "" if the view has none
}

// The head of a model, and for a cell the text and the positions of its tokens.
interface Place {
  model: string;
  layer: number;
  head: number;
  cell: Cell | null;
}

interface Cell {
  text: string;
  pair: string;
  at: readonly [query: number, key: number];
}

export interface Note extends Place {
  about: string; // the place in words
  words: string;
}

export interface Story {
  readonly steps: readonly Step[];
  readonly notes: readonly Note[];
}

const KEY = "headscope-story";
const STEPS_MOST = 60;
const NOTES_MOST = 300;
const PICTURE_MOST = 1_500_000; // characters; a larger one is left out
const TEXT_MOST = 4000; // characters of a title, caption or note
const VIEW_MOST = 1_500_000; // characters of an address
const CELL_TEXT_MOST = 1_000_000; // characters of a text

type Fields = Record<string, unknown>;
const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});

// Half a pair of UTF-16 is no text: no address or file takes it.
const wellFormed = (text: string): string =>
  text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
const cut = (text: string): string => wellFormed(text.slice(0, TEXT_MOST));

function stepOf(value: unknown): Step | null {
  const { view, title, caption, picture } = fieldsOf(value);
  if (typeof view !== "string" || typeof title !== "string" || typeof caption !== "string") return null;
  if (view.length > VIEW_MOST) return null;
  const drawn = typeof picture === "string" && picture.startsWith("<svg") && picture.length <= PICTURE_MOST;
  return {
    view: wellFormed(view),
    title: cut(title),
    caption: cut(caption),
    picture: drawn ? wellFormed(picture) : "",
  };
}

function cellOf(value: unknown): Cell | null {
  const { text, pair, at } = fieldsOf(value);
  const [query, key] = Array.isArray(at) ? (at as unknown[]) : [];
  if (typeof text !== "string" || typeof pair !== "string" || text.length + pair.length > CELL_TEXT_MOST) return null;
  return Number.isInteger(query) && Number.isInteger(key) ? { text, pair, at: [Number(query), Number(key)] } : null;
}

function noteOf(value: unknown): Note | null {
  const { model, layer, head, cell, about, words } = fieldsOf(value);
  if (typeof model !== "string" || typeof about !== "string" || typeof words !== "string") return null;
  const known = cellOf(cell);
  if (!Number.isInteger(layer) || !Number.isInteger(head) || (cell && !known)) return null;
  return {
    model,
    layer: Number(layer),
    head: Number(head),
    cell: known,
    about: cut(about),
    words: cut(words),
  };
}

function listOf<T>(value: unknown, read: (one: unknown) => T | null, most: number): T[] {
  return Array.isArray(value) ? value.map(read).filter((one) => one !== null).slice(0, most) : []; // prettier-ignore
}

// The story in a JSON text; an empty one if it holds none. A list alone is that of the steps.
export function parseStory(text: string): Story {
  try {
    const value: unknown = JSON.parse(text);
    const { steps, notes } = Array.isArray(value) ? { steps: value as unknown[], notes: [] } : fieldsOf(value);
    return { steps: listOf(steps, stepOf, STEPS_MOST), notes: listOf(notes, noteOf, NOTES_MOST) };
  } catch {
    return { steps: [], notes: [] };
  }
}

// The notes on a head and, of one text, on its cells. Those on the head itself come first.
export const notesOn = (
  { notes }: Story,
  of: { model: string; layer: number; head: number; text: string; pair: string },
): Note[] =>
  notes
    .filter(({ model, layer, head }) => model === of.model && layer === of.layer && head === of.head)
    .filter(({ cell }) => !cell || (cell.text === of.text && cell.pair === of.pair))
    .sort((a, b) => Number(a.cell !== null) - Number(b.cell !== null));

// Every edit gives a new story and remembers the one before.
class StoryKeeper {
  private now: Story = parseStory(kept("localStorage", KEY) ?? "[]");
  private readonly before: Story[] = [];

  constructor(private readonly changed: () => void) {}

  get story(): Story {
    return this.now;
  }
  get canUndo(): boolean {
    return this.before.length > 0;
  }

  private put({ steps, notes }: Story): void {
    this.now = { steps: steps.slice(0, STEPS_MOST), notes: notes.slice(0, NOTES_MOST) };
    // Pictures may not fit into the browser's storage; then the views and the notes alone are kept.
    const bare = this.now.steps.map((step) => ({ ...step, picture: "" }));
    keep("localStorage", KEY, JSON.stringify({ ...this.now, steps: bare }));
    keep("localStorage", KEY, JSON.stringify(this.now));
    this.changed();
  }

  set(patch: Partial<Story>): void {
    this.before.push(this.now);
    this.put({ ...this.now, ...patch });
  }
  undo(): void {
    const last = this.before.pop();
    if (last) this.put(last);
  }

  add(step: Step): void {
    this.set({ steps: [...this.now.steps, step] });
  }
  edit(n: number, patch: Partial<Step>): void {
    this.set({ steps: this.now.steps.map((step, k) => (k === n ? { ...step, ...patch } : step)) });
  }
  remove(n: number): void {
    this.set({ steps: this.now.steps.filter((_, k) => k !== n) });
  }
  // Exchanges a step with the next one.
  swap(n: number): void {
    const { steps } = this.now;
    const [first, second] = steps.slice(n, n + 2);
    if (first && second) this.set({ steps: [...steps.slice(0, n), second, first, ...steps.slice(n + 2)] });
  }

  addNote(note: Note): void {
    this.set({ notes: [...this.now.notes, note] });
  }
  editNote(note: Note, words: string): void {
    this.set({ notes: this.now.notes.map((one) => (one === note ? { ...one, words } : one)) });
  }
  removeNote(note: Note): void {
    this.set({ notes: this.now.notes.filter((one) => one !== note) });
  }
}

export const storyOf = perObject((app: App) => new StoryKeeper(app.draw));
