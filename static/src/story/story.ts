// A story: views in an order, each with a title, a caption and the picture of the moment when it was added. It is kept in
// this browser, and leaves it only in the file that is saved.
import { keep, kept } from "../app/storage";

export interface Step {
  view: string; // the fragment of the address, which restores the view
  title: string;
  caption: string;
  picture: string; // SVG; "" if the view has none
}

export type Story = readonly Step[];

const KEY = "headscope-story";
export const STEPS_MOST = 60;
const PICTURE_MOST = 1_500_000; // characters; a larger one is left out
const TEXT_MOST = 4000; // characters of a title or caption

function stepOf(value: unknown): Step | null {
  const { view, title, caption, picture } = (value ?? {}) as Record<string, unknown>;
  if (typeof view !== "string" || typeof title !== "string" || typeof caption !== "string") return null;
  const drawn = typeof picture === "string" && picture.startsWith("<svg") && picture.length <= PICTURE_MOST;
  return {
    view,
    title: title.slice(0, TEXT_MOST),
    caption: caption.slice(0, TEXT_MOST),
    picture: drawn ? picture : "",
  };
}

// The steps of a JSON text; [] if it holds no story.
export function parseStory(text: string): Step[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value.map(stepOf).filter((step) => step !== null).slice(0, STEPS_MOST) : []; // prettier-ignore
  } catch {
    return [];
  }
}

// Every edit gives a new story and remembers the one before.
export class StoryKeeper {
  private now: Story = parseStory(kept("localStorage", KEY) ?? "[]");
  private readonly before: Story[] = [];

  get steps(): Story {
    return this.now;
  }
  get canUndo(): boolean {
    return this.before.length > 0;
  }

  private put(story: Story): void {
    this.now = story.slice(0, STEPS_MOST);
    // Pictures may not fit into the browser's storage; then the views alone are kept.
    keep("localStorage", KEY, JSON.stringify(this.now.map((step) => ({ ...step, picture: "" }))));
    keep("localStorage", KEY, JSON.stringify(this.now));
  }

  set(story: Story): void {
    this.before.push(this.now);
    this.put(story);
  }
  undo(): void {
    const last = this.before.pop();
    if (last) this.put(last);
  }

  add(step: Step): void {
    this.set([...this.now, step]);
  }
  edit(n: number, patch: Partial<Step>): void {
    this.set(this.now.map((step, k) => (k === n ? { ...step, ...patch } : step)));
  }
  remove(n: number): void {
    this.set(this.now.filter((_, k) => k !== n));
  }
  // Exchanges a step with the next one.
  swap(n: number): void {
    const [first, second] = this.now.slice(n, n + 2);
    if (first && second) this.set([...this.now.slice(0, n), second, first, ...this.now.slice(n + 2)]);
  }
}
