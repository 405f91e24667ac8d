// The pattern of each head over a fixed sample text. It belongs to the model, so a head keeps its label whatever text is
// on screen. Counted once for each checksum and kept in the browser.
import type { Answer } from "../app/answer";
import type { Cache } from "../app/cache";
import { SAMPLE } from "../app/examples";
import { attentionRequest, profilesRequest } from "../app/requests";
import { isFile } from "../app/sources";
import { factsOf } from "../app/model-facts";
import { stackOf } from "../app/stacks";
import type { State } from "../app/state";
import { keep, kept } from "../app/storage";
import type { Deriver } from "./derived";
import type { Strengths } from "./patterns";
import { profilesOf } from "./profiles";

type Heads = readonly Strengths[]; // by layer * heads + head

const NONE: Heads = [];
// It reads the sample, too, whose language is that of the text if the state has none for a target.
const ofDecoder = ({ model, lang, tlang }: State): Partial<State> => ({
  ...{ target: SAMPLE, write: 0 },
  tlang: tlang || (factsOf(model)?.target_language ?? (lang || (factsOf(model)?.source_language ?? ""))),
});
const KEY = "headscope-patterns-2-"; // and the model's checksum, and its decoder; another number for another sample or count

export class SamplePatterns {
  private readonly known = new Map<string, Heads>();
  private begun = ""; // whose sample is requested

  constructor(
    private readonly cache: Cache<Answer>,
    private readonly deriver: Deriver,
  ) {}

  // Returns none until the sample is counted. It is requested once the maps on screen are made, or if labels choose them.
  // From then on every drawing wants it: more maps may be ordered meanwhile, and a request that is not wanted is cancelled.
  of(overview: Answer, state: State): Heads {
    const { sha256, layers, heads } = overview;
    const stack = stackOf(state);
    if (stack === "cross") return NONE; // no token of one text is one of the other
    const of = stack === "encoder" ? sha256 : `${sha256}-${stack}`;
    const count = layers.length * heads.length;
    const known = this.known.get(of) ?? read(of, count) ?? this.count(overview, state, of, count);
    if (known) this.known.set(of, known);
    return known ?? NONE;
  }

  private count(overview: Answer, state: State, of: string, count: number): Heads | null {
    const choose = state.only !== "all" || state.seek !== "";
    if (!choose && this.begun !== of && !this.deriver.hasMade(overview)) return null;
    this.begun = of;
    const made = isFile(state.model) ? this.ofFile(overview, state) : this.ofSample(overview, state);
    if (!made || made.length < count) return null;
    const heads = made.map(({ shares, evenness, chance }): Strengths => ({ shares, evenness, chance }));
    keep("localStorage", KEY + of, JSON.stringify(heads, rounded));
    return heads;
  }

  private ofSample({ encoding }: Answer, state: State): readonly Strengths[] | null {
    const sample = {
      ...state,
      text: SAMPLE,
      pair: "",
      prompt: "",
      max: 0,
      window: -1,
      literal: false,
      ...ofDecoder(state),
    };
    const { answer } = this.cache.want(profilesRequest(sample, encoding.causal));
    return answer && profilesOf(answer);
  }

  // A file has one text, and its maps.
  private ofFile(overview: Answer, state: State): readonly Strengths[] | null {
    const { answer } = this.cache.want(attentionRequest(state, overview.layers));
    if (!answer) return null;
    const maps = answer.attentions as Uint8Array;
    const size = maps.length / answer.layers.length;
    answer.layers.forEach((_, l) => this.deriver.profiles(answer, l, maps.subarray(l * size, (l + 1) * size)));
    return this.deriver.of(answer).profiles.filter((profile) => profile !== undefined);
  }
}

const rounded = (_: string, value: unknown): unknown => (typeof value === "number" ? Number(value.toFixed(4)) : value);

function read(of: string, count: number): Heads | null {
  try {
    const heads = JSON.parse(kept("localStorage", KEY + of) ?? "null") as Heads | null;
    return heads?.length === count && heads.every(({ shares, chance }) => shares && chance) ? heads : null;
  } catch {
    return null;
  }
}
