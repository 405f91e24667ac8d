// Paints every head's thumbnail. Maps are fetched for the visible ones first. Each is coloured when it comes, while the
// worker makes the next; they are shown together once all visible ones are there. Only then are the others fetched.
// Where the figures came with coarse maps, these are shown first, and no other is fetched before.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { perObject } from "../../app/per-object";
import type { Derived } from "../../heads/derived";
import type { Place } from "../../heads/order";
import { REACH, type Profile } from "../../heads/patterns";
import type { Shape } from "../../app/selection";
import { headsOf } from "../../heads/heads";
import { lutOf } from "../../maps/colour";
import { coarseMapsOf, extentOf, smallMapsOf, type CoarseMaps, type Extent } from "../../heads/pooled";
import { heightOf, paintParts, pool, type Pooled } from "../../maps/thumbnail";

export interface Thumb extends Place {
  canvas: HTMLCanvasElement;
  key: string; // of what is painted
  draft: Draft | null;
}

// A picture in the making.
interface Draft {
  look: string;
  image: ImageData;
  has: Has; // what is in it
}

// The maps of a head that are here.
interface Has {
  attention: Uint8Array | undefined;
  coarse: Uint8Array | undefined; // in place of attention
  profile: Profile | undefined;
  similarity: Int8Array | undefined;
  small: { attention?: Pooled<Uint8Array> | undefined; similarity?: Pooled<Int8Array> | undefined };
}

// The properties that all pictures of one drawing share.
interface Look extends Extent {
  key: string;
  side: number; // device pixels
  causal: boolean;
  blocks: number; // along a coarse map
}

export const NEAR = 3; // offsets in the strip, either way

const CHUNK_MS = 10; // drawing per frame, so that scrolling stays fluent
const URGENT_MS = 80; // while visible maps are blank
const PATIENCE_MS = 400; // complete heads are then shown, though other visible ones are missing
const GIVEN_UP_MS = 3000; // and then also the parts that are there: the rest may have failed
const AT_ONCE = 12e6; // bytes of attention maps fetched before they are scrolled to

const NOTHING_TO_DO = (): void => {};
const NOTHING: Has = { attention: undefined, coarse: undefined, profile: undefined, similarity: undefined, small: {} };

// Attention to the neighbours before, to the token itself and to those after it: one step beside the diagonal is too
// fine for a thumbnail.
const nearOffsets = ({ offsets }: Profile): number[] => offsets.slice(REACH - NEAR, REACH + NEAR + 1);

export class Thumbnails {
  all: readonly Thumb[] = [];
  private painting = 0;
  private begun: { answer: Answer; at: number } | null = null;
  private painted: Answer | null = null; // its first thumbnails are painted
  private shown: Answer | null = null; // and on the screen
  private side = 0; // of a thumbnail, in device pixels
  private sight: Thumb[] = []; // those in sight when the grid was laid out last

  constructor(private readonly app: App) {}

  // Makes one canvas a head, again only when the model's shape changes.
  build({ layers, heads }: Shape): void {
    if (this.all.length === layers * heads && this.all.at(-1)?.h === heads - 1) return;
    this.all = Array.from({ length: layers * heads }, (_, n) => {
      const canvas = document.createElement("canvas");
      canvas.setAttribute("aria-hidden", "true");
      return { l: Math.floor(n / heads), h: n % heads, canvas, key: "", draft: null };
    });
  }

  // Notes which thumbnails are in sight, while the server computes.
  look(): void {
    const width = this.all.find(({ canvas }) => canvas.clientWidth)?.canvas.clientWidth ?? 0;
    this.side = Math.round(width * devicePixelRatio);
    this.sight = this.all.filter(({ canvas }) => canvas.isConnected && isVisible(canvas));
  }

  // Asks for the maps in sight, before the page is drawn with the answer.
  ask(answer: Answer): void {
    if (this.shown !== answer && this.sight.length) this.want(answer, new Set(this.sight.map(({ l }) => l)));
  }

  private want(answer: Answer, visible: ReadonlySet<number>): Derived {
    const { app } = this;
    const heads = headsOf(app);
    heads.deriver.thumbnails = { side: this.side, special: app.state.special };
    if (this.shown !== answer && this.coarseOf(answer)) return heads.deriver.of(answer);
    heads.attentionMaps.together(answer, [...visible]);
    if (app.state.show !== "similarity") for (const l of visible) heads.attention(answer, l);
    return heads.derived(answer, visible, this.shown !== answer);
  }

  // The coarse maps, if they are enough for a picture.
  private coarseOf(answer: Answer): CoarseMaps | null {
    return this.app.state.show === "attention" ? coarseMapsOf(answer) : null;
  }

  // Fetches the visible maps, then the rest if it is little or `every` map is needed. Draws those that are there.
  fill(answer: Answer, every: boolean): void {
    const { app } = this;
    const heads = headsOf(app);
    const layers = [...answer.layers.keys()];
    this.look();
    if (!this.side) {
      if (every) for (const l of layers) heads.attention(answer, l);
      return;
    }
    const near = this.sight;
    const coarse = this.coarseOf(answer);
    const look = this.lookOf(answer, this.side);
    const first = this.shown !== answer;
    const visible = new Set(near.map(({ l }) => l));
    const { length: T } = answer.encoding.ids;
    const pooled = smallMapsOf(answer);
    const fetched =
      first && coarse ? [] : every || (!first && T * T * this.all.length <= AT_ONCE) ? layers : [...visible];
    const { show } = app.state;
    const [above, below] = [show !== "similarity", show !== "attention"];
    const derived = this.want(answer, visible);
    const attention = new Map(fetched.map((l) => [l, above || every ? heads.attention(answer, l) : null]));
    const { small } = derived;
    const fits = small.side === look.side && small.special === app.state.special;
    const whole = answer.source !== null; // maps of cross heads come without profiles
    const has = (t: Thumb): Has => {
      const at = t.l * answer.heads.length + t.h;
      return {
        coarse: coarse?.attention(t.l)[t.h],
        small: fits && !pooled ? { attention: small.attention[at], similarity: small.similarity[at] } : {},
        // With its profile comes its smaller copy.
        attention:
          above && (whole || derived.profiles[at])
            ? (pooled?.attention(t.l)[t.h] ?? attention.get(t.l)?.[t.h])
            : undefined,
        profile: above ? derived.profiles[at] : undefined,
        similarity: below ? (pooled?.similarity(t.l)[t.h] ?? derived.similarity[at]) : undefined,
      };
    };
    const isComplete = ({ attention, coarse, profile, similarity }: Has): boolean =>
      (!above || Boolean(coarse ?? (attention && (whole || profile)))) && (!below || Boolean(similarity));
    const complete = near.every((t) => isComplete(has(t)));
    // Once all are here nothing more comes, and no maps are kept.
    heads.deriver.onprogress = complete
      ? NOTHING_TO_DO
      : () => near.forEach((t) => t.key.startsWith(look.key) || this.compose(t, look, has(t)));
    if (!first) this.begun = null; // the next answer has these pictures to clear
    const waited = first ? this.waited(answer) : Infinity;
    if (!complete && waited < PATIENCE_MS) return;
    const inParts = new Set(waited > GIVEN_UP_MS ? near : []);
    // Missing maps are painted too, clear: they must not show a map of the text before.
    const jobs = [...new Set([...near, ...this.all])].flatMap((t) => {
      const known = has(t);
      const there = isComplete(known) || inParts.has(t) ? known : NOTHING;
      const key = `${look.key} ${Object.values(there).map(Boolean).join()}`;
      return t.key === key || (!t.key && there === NOTHING) ? [] : [() => this.paint(t, key, look, there)];
    });
    this.run(jobs, near.length, () => {
      if (first && complete && near.length) this.commit(answer);
    });
  }

  private lookOf(answer: Answer, side: number): Look {
    const { state, theme } = this.app;
    const extent = extentOf(answer, state.special);
    const { tokens } = extent;
    const key = [answerNumber(answer), state.map, theme, state.show, side, tokens.length].join(" ");
    return { ...extent, key, side, causal: answer.encoding.causal, blocks: this.coarseOf(answer)?.side ?? 0 };
  }

  private commit(answer: Answer): void {
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

  // Milliseconds since the first thumbnails were requested.
  private waited(answer: Answer): number {
    const now = performance.now();
    if (this.begun?.answer !== answer) {
      this.begun = { answer, at: now };
      this.clear();
      for (const rest of [PATIENCE_MS, GIVEN_UP_MS]) setTimeout(this.app.draw, rest + 10);
    }
    return now - this.begun.at;
  }

  // Another text's maps must not be shown for this one.
  private clear(): void {
    cancelAnimationFrame(this.painting);
    for (const t of this.all) {
      if (t.key) t.canvas.getContext("2d")?.clearRect(0, 0, t.canvas.width, t.canvas.height);
      t.key = "";
    }
  }

  private run(jobs: readonly (() => void)[], urgent: number, done: () => void): void {
    cancelAnimationFrame(this.painting);
    const step = (from: number): void => {
      const end = performance.now() + (from < urgent ? URGENT_MS : CHUNK_MS);
      let n = from;
      for (; n < jobs.length && performance.now() < end; n++) jobs[n]?.();
      if (n < jobs.length) this.painting = requestAnimationFrame(() => step(n));
      else done();
    };
    step(0);
  }

  // Adds the parts that are known and not in the picture yet.
  private compose(t: Thumb, look: Look, known: Has): ImageData {
    const { key, T, side, tokens, columns, causal } = look;
    const { state, theme } = this.app;
    if (t.draft?.look !== key)
      t.draft = { look: key, image: new ImageData(side, heightOf(state.show, side)), has: NOTHING };
    const { image, has } = t.draft;
    const attention = !has.attention && known.attention;
    const coarse = !has.coarse && !known.attention && known.coarse;
    const profile = !has.profile && known.profile;
    const similarity = !has.similarity && known.similarity;
    t.draft.has = known;
    paintParts(
      image,
      {
        attention: attention
          ? (known.small.attention ?? pool(attention, T, side, tokens, causal, columns))
          : coarse
            ? pool(coarse, look.blocks, side, [...Array(look.blocks).keys()], causal)
            : undefined,
        offsets: profile ? nearOffsets(profile) : undefined,
        similarity: similarity ? (known.small.similarity ?? pool(similarity, T, side, tokens)) : undefined,
      },
      { attention: lutOf(state.map, "attention", theme), similarity: lutOf(state.map, "signed", theme) },
    );
    return image;
  }

  private paint(t: Thumb, key: string, look: Look, known: Has): void {
    t.key = key;
    const image = this.compose(t, look, known);
    t.draft = null;
    t.canvas.width = image.width;
    t.canvas.height = image.height;
    t.canvas.getContext("2d")?.putImageData(image, 0, 0);
  }
}

function isVisible(canvas: HTMLCanvasElement): boolean {
  const { top, bottom } = canvas.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

let answers = 0;
const answerNumber = perObject<Answer, number>(() => answers++);
