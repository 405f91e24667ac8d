// Every head's thumbnail: a button with its picture. Maps are fetched for what is in sight first and painted together
// when they are all there; only then are the others asked for and made.
import type { Answer } from "./answer";
import type { App } from "./app";
import { lutOf } from "./colour";
import { h } from "./dom";
import type { Place } from "./head-order";
import { REACH, type Profile } from "./patterns";
import { heightOf, pool, thumbnail, type Parts } from "./thumbs";

export interface Thumb extends Place {
  button: HTMLButtonElement;
  canvas: HTMLCanvasElement;
  key: string; // of what is painted
  figure: HTMLElement;
  written: string;
}

export const NEAR = 3; // offsets in the strip, either way

const CHUNK_MS = 10; // drawing per frame, so that scrolling stays fluent
const URGENT_MS = 80; // while there are maps in sight that are blank
const PATIENCE_MS = 400; // heads that are whole by then are shown, though others in sight are missing
const GIVEN_UP_MS = 3000; // and then also what is there of a head: the rest may have failed
const AT_ONCE = 12e6; // bytes of attention maps fetched before they are scrolled to

// The tokens shown.
export const seenOf = ({ encoding }: Answer, withSpecial: boolean): number[] =>
  encoding.special.flatMap((special, t) => (special && !withSpecial ? [] : [t]));

// Attention to the neighbours before, the token itself and those after: one step beside the diagonal is too fine for a
// thumbnail.
export const nearOffsets = ({ offsets }: Profile): number[] => offsets.slice(REACH - NEAR, REACH + NEAR + 1);

export class Thumbnails {
  all: Thumb[] = [];
  private painting = 0;
  private begun: { answer: Answer; at: number } | null = null;
  private shown: Answer | null = null; // whose first thumbnails are painted

  constructor(
    private readonly app: App,
    private readonly tell: (l: number, head: number, aloud: boolean) => void,
  ) {}

  // One button a head, made anew only when the model's shape changes; says whether.
  build({ layers, heads }: Answer): boolean {
    if (this.all.length === layers.length * heads.length && this.all.at(-1)?.h === heads.length - 1) return false;
    this.all = layers.flatMap((_, l) => heads.map((_, head) => this.thumb(l, head)));
    return true;
  }

  private thumb(l: number, head: number): Thumb {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const figure = h("span", { class: "figure" });
    const button = h(
      "button",
      {
        class: "thumb",
        type: "button",
        tabindex: -1,
        onclick: () => this.app.set({ view: "head", layer: l, head, pin: [] }, true),
        onfocus: () => this.tell(l, head, true),
        onpointerenter: () => this.tell(l, head, false),
      },
      canvas,
      figure,
    );
    return { l, h: head, button, canvas, key: "", figure, written: "" };
  }

  // Fetches what is in sight, then the rest where it is little or `every` map is needed; draws what is there.
  fill(answer: Answer, every: boolean): void {
    const { app } = this;
    const layers = [...answer.layers.keys()];
    const width = this.all.find(({ button }) => button.clientWidth)?.button.clientWidth;
    if (!width) {
      if (every) for (const l of layers) app.attention(answer, l);
      return;
    }
    const near = this.all.filter((t) => t.button.isConnected && inSight(t));
    const first = this.shown !== answer;
    const sight = new Set(near.map(({ l }) => l));
    const { length: T } = answer.encoding.ids;
    const fetched = every || (!first && T * T * this.all.length <= AT_ONCE) ? layers : [...sight];
    const [above, below] = [app.state.show !== "similarity", app.state.show !== "attention"];
    const attention = new Map(fetched.map((l) => [l, above || every ? app.attention(answer, l) : null]));
    const derived = app.derived(answer, sight, first);
    const has = (t: Thumb): Has => {
      const at = t.l * answer.heads.length + t.h;
      return {
        attention: above ? attention.get(t.l)?.[t.h] : undefined,
        profile: above ? derived.profiles[at] : undefined,
        similarity: below ? derived.similarity[at] : undefined,
      };
    };
    const isWhole = ({ attention, profile, similarity }: Has): boolean => (!above || Boolean(attention && profile)) && (!below || Boolean(similarity));
    const whole = near.every((t) => isWhole(has(t)));
    const waited = first ? this.waited(answer) : Infinity;
    if (!whole && waited < PATIENCE_MS) return;
    const side = Math.round((width - 2) * devicePixelRatio);
    const seen = seenOf(answer, app.state.special);
    const look = [answerNumber(answer), app.state.map, app.theme, app.state.show, side, seen.length].join(" ");
    const inParts = new Set(waited > GIVEN_UP_MS ? near : []);
    // What is not there yet is painted too, clear: a map of before must not stand for it.
    const jobs = [...new Set([...near, ...this.all])].flatMap((t) => {
      const known = has(t);
      const there = isWhole(known) || inParts.has(t) ? known : NOTHING;
      const key = `${look} ${Object.values(there).map(Boolean)}`;
      return t.key === key || (!t.key && there === NOTHING) ? [] : [() => this.paint(t, key, there, T, side, seen)];
    });
    this.run(jobs, near.length, () => {
      if (first && whole && near.length) this.settle(answer);
    });
  }

  private settle(answer: Answer): void {
    this.shown = answer;
    performance.mark("thumbnails-visible");
    this.app.draw(); // asks for the rest
  }

  // How long the first thumbnails have been waited for.
  private waited(answer: Answer): number {
    const now = performance.now();
    if (this.begun?.answer !== answer) {
      this.begun = { answer, at: now };
      this.clear();
      for (const rest of [PATIENCE_MS, GIVEN_UP_MS]) setTimeout(this.app.draw, rest + 10);
    }
    return now - this.begun.at;
  }

  // Another text's maps must not stand for this one's.
  private clear(): void {
    cancelAnimationFrame(this.painting);
    for (const { key, canvas } of this.all) if (key) canvas.getContext("2d")!.clearRect(0, 0, canvas.width, canvas.height);
    for (const t of this.all) t.key = "";
  }

  private run(jobs: readonly (() => void)[], urgent: number, done: () => void): void {
    cancelAnimationFrame(this.painting);
    const step = (from: number): void => {
      const end = performance.now() + (from < urgent ? URGENT_MS : CHUNK_MS);
      let n = from;
      while (n < jobs.length && performance.now() < end) jobs[n++]!();
      if (n < jobs.length) this.painting = requestAnimationFrame(() => step(n));
      else done();
    };
    step(0);
  }

  private paint(t: Thumb, key: string, { attention, profile, similarity }: Has, T: number, side: number, seen: readonly number[]): void {
    const { state, theme } = this.app;
    t.key = key;
    const parts: Parts = {
      attention: attention && pool(attention, T, side, seen),
      offsets: profile && nearOffsets(profile),
      similarity: similarity && pool(similarity, T, side, seen),
    };
    t.canvas.width = side;
    t.canvas.height = heightOf(state.show, side);
    const luts = { attention: lutOf(state.map, "attention", theme), similarity: lutOf(state.map, "signed", theme) };
    t.canvas.getContext("2d")!.putImageData(thumbnail(parts, state.show, side, luts), 0, 0);
  }
}

// What is known of a head to paint.
interface Has {
  attention: Uint8Array | undefined;
  profile: Profile | undefined;
  similarity: Int8Array | undefined;
}

const NOTHING: Has = { attention: undefined, profile: undefined, similarity: undefined };

function inSight({ button }: Thumb): boolean {
  const { top, bottom } = button.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

const numbers = new WeakMap<Answer, number>();
let answers = 0;
function answerNumber(answer: Answer): number {
  if (!numbers.has(answer)) numbers.set(answer, answers++);
  return numbers.get(answer)!;
}
