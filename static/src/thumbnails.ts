// Every head's thumbnail: a button with its picture. Maps are fetched for what is in sight first. Each is coloured when
// it comes, while the worker makes the next; they are shown together when they are all there, and only when they are on
// the screen are the others asked for and made.
import type { Answer } from "./answer";
import type { App, Shape } from "./app";
import { lutOf } from "./colour";
import { h } from "./dom";
import type { Place } from "./head-order";
import { REACH, type Profile } from "./patterns";
import { heightOf, paintParts, pool } from "./thumbs";

export interface Thumb extends Place {
  button: HTMLButtonElement;
  canvas: HTMLCanvasElement;
  key: string; // of what is painted
  draft: Draft | null;
  figure: HTMLElement;
  written: string;
}

// A picture in the making.
interface Draft {
  look: string;
  image: ImageData;
  has: Has; // what is in it
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
  private painted: Answer | null = null; // whose first thumbnails are painted
  private shown: Answer | null = null; // and on the screen
  private prepare = NOTHING_TO_DO;

  constructor(
    private readonly app: App,
    private readonly tell: (l: number, head: number, aloud: boolean) => void,
  ) {
    app.onPart(() => this.prepare());
  }

  // One button a head, made anew only when the model's shape changes; says whether.
  build({ layers, heads }: Shape): boolean {
    if (this.all.length === layers * heads && this.all.at(-1)?.h === heads - 1) return false;
    this.all = Array.from({ length: layers * heads }, (_, n) => this.thumb(Math.floor(n / heads), n % heads));
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
    return { l, h: head, button, canvas, key: "", draft: null, figure, written: "" };
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
    app.together(answer, [...sight]);
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
    const side = Math.round((width - 2) * devicePixelRatio);
    const seen = seenOf(answer, app.state.special);
    const look = [answerNumber(answer), app.state.map, app.theme, app.state.show, side, seen.length].join(" ");
    const whole = near.every((t) => isWhole(has(t)));
    // Once all is here nothing more comes, and no maps are held on to.
    this.prepare = whole ? NOTHING_TO_DO : () => near.forEach((t) => t.key.startsWith(look) || this.compose(t, look, has(t), T, side, seen));
    if (!first) this.begun = null; // whoever is waited for next has these pictures to clear
    const waited = first ? this.waited(answer) : Infinity;
    if (!whole && waited < PATIENCE_MS) return;
    const inParts = new Set(waited > GIVEN_UP_MS ? near : []);
    // What is not there yet is painted too, clear: a map of before must not stand for it.
    const jobs = [...new Set([...near, ...this.all])].flatMap((t) => {
      const known = has(t);
      const there = isWhole(known) || inParts.has(t) ? known : NOTHING;
      const key = `${look} ${Object.values(there).map(Boolean)}`;
      return t.key === key || (!t.key && there === NOTHING) ? [] : [() => this.paint(t, key, look, there, T, side, seen)];
    });
    this.run(jobs, near.length, () => {
      if (first && whole && near.length) this.settle(answer);
    });
  }

  private settle(answer: Answer): void {
    if (this.painted === answer) return;
    this.painted = answer;
    performance.mark("thumbnails-visible");
    requestAnimationFrame(() =>
      setTimeout(() => {
        this.shown = answer;
        this.app.draw(); // asks for the rest
      }),
    );
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

  // What is known and not in the picture yet.
  private compose(t: Thumb, look: string, known: Has, T: number, side: number, seen: readonly number[]): ImageData {
    const { state, theme } = this.app;
    if (t.draft?.look !== look) t.draft = { look, image: new ImageData(side, heightOf(state.show, side)), has: NOTHING };
    const { image, has } = t.draft;
    const [attention, profile, similarity] = [!has.attention && known.attention, !has.profile && known.profile, !has.similarity && known.similarity];
    t.draft.has = known;
    paintParts(
      image,
      {
        attention: attention ? pool(attention, T, side, seen) : undefined,
        offsets: profile ? nearOffsets(profile) : undefined,
        similarity: similarity ? pool(similarity, T, side, seen) : undefined,
      },
      { attention: lutOf(state.map, "attention", theme), similarity: lutOf(state.map, "signed", theme) },
    );
    return image;
  }

  private paint(t: Thumb, key: string, look: string, known: Has, T: number, side: number, seen: readonly number[]): void {
    t.key = key;
    const image = this.compose(t, look, known, T, side, seen);
    t.draft = null;
    t.canvas.width = image.width;
    t.canvas.height = image.height;
    t.canvas.getContext("2d")!.putImageData(image, 0, 0);
  }
}

// What is known of a head to paint.
interface Has {
  attention: Uint8Array | undefined;
  profile: Profile | undefined;
  similarity: Int8Array | undefined;
}

const NOTHING_TO_DO = (): void => {};
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
