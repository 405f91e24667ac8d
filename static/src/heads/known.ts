// The figures of each head at the threshold of now, with its profile once its map was here, and its sample pattern.
import type { HeadScore } from "../../../build/openapi";
import { NO_FIGURES, type Answer, type Summary } from "../app/answer";
import type { Cache } from "../app/cache";
import { perObject } from "../app/per-object";
import { summaryRequest } from "../app/requests";
import { INITIAL, type State } from "../app/state";
import type { Deriver } from "./derived";
import type { Known } from "./figures";
import { figuresAt } from "./levels";
import type { Strengths } from "./patterns";
import { SamplePatterns } from "./sample";

type Scores = readonly (readonly HeadScore[])[]; // [l][h]

// Cross heads have none.
const withoutFigures = perObject(({ layers, heads }: Answer): Summary[][] =>
  layers.map(() => heads.map(() => ({ ...NO_FIGURES }))),
);

// The figures that depend on the threshold, before they are counted at a new one.
const UNCOUNTED: Partial<Summary> = {
  high_pairs: NaN,
  repeated_share: null,
  same_sentence_share: null,
  repeated_same_sentence_share: null,
  mean_distance: null,
  focal_position: null,
  focal_share: null,
  longest_overlap: null,
};

const COMMIT_MS = 250; // the server counts exactly once the slider has rested this long

export class KnownHeads {
  private readonly sample: SamplePatterns;
  private joined: {
    counted: Summary[][];
    made: number;
    scores: Scores | undefined;
    sample: readonly Strengths[];
    heads: Known[][];
  } | null = null;
  private committed = INITIAL.tau; // the threshold the server answered last
  private committing = { tau: INITIAL.tau, timer: 0 };
  private rough: { answer: Answer; tau: number; made: number; figures: Summary[][] } | null = null;

  constructor(
    private readonly cache: Cache<Answer>,
    private readonly deriver: Deriver,
    private readonly changed: () => void,
  ) {
    this.sample = new SamplePatterns(cache, deriver);
  }

  // [l][h]. Counted here from half precision until the server's count at this threshold is here.
  of(overview: Answer, state: State, scores: Scores | undefined): Known[][] {
    const counted = this.counted(overview, state);
    const { profiles, made } = this.deriver.of(overview);
    const sample = this.sample.of(overview, state);
    const { joined } = this;
    if (joined?.counted !== counted || joined.made !== made || joined.scores !== scores || joined.sample !== sample) {
      const H = overview.heads.length;
      const heads = counted.map((row, l) =>
        row.map((s, h): Known => {
          const [profile, often] = [profiles[l * H + h], sample[l * H + h]];
          return { ...s, profile, sample: often, scores: scores?.[l]?.[h] };
        }),
      );
      this.joined = { counted, made, scores, sample, heads };
      return heads;
    }
    return joined.heads;
  }

  private counted(overview: Answer, state: State): Summary[][] {
    const { tau } = state;
    const summary = overview.summary ?? withoutFigures(overview);
    if (tau === INITIAL.tau || !overview.summary) return summary;
    const request = summaryRequest(state);
    const exact = this.committed === tau ? this.cache.want(request).answer : this.cache.peek(request);
    if (exact?.summary) return exact.summary;
    this.commitLater(tau);
    // The overview orders what is visible first by itself.
    const { view, special } = state;
    const derived = view === "overview" ? this.deriver.of(overview) : this.deriver.similarities(overview, special);
    const { levels, made } = derived;
    if (this.rough?.answer !== overview || this.rough.tau !== tau || this.rough.made !== made) {
      const H = overview.heads.length;
      const at = (known: Summary, l: number, h: number): Summary => {
        const counts = levels[l * H + h];
        return { ...known, ...UNCOUNTED, ...(counts && figuresAt(counts, tau)) };
      };
      const figures = summary.map((row, l) => row.map((known, h) => at(known, l, h)));
      this.rough = { answer: overview, tau, made, figures };
    }
    return this.rough.figures;
  }

  private commitLater(tau: number): void {
    if (this.committed === tau || this.committing.tau === tau) return;
    clearTimeout(this.committing.timer);
    const commit = (): void => {
      this.committed = tau;
      this.changed();
    };
    this.committing = { tau, timer: setTimeout(commit, COMMIT_MS) };
  }
}
