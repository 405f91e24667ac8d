// The figures of a head, those of its high pairs, and the patterns of its attention.
import { useLayoutEffect, useState } from "preact/hooks";
import type { App } from "../../app/app";
import { isOfHeadSpace } from "../../app/measures";
import { SUM, type Selection } from "../../app/selection";
import { hasSimilarities, isFile } from "../../app/sources";
import { FIGURES, patternHere, patternName, valueOf, type Figure, type Known } from "../../heads/figures";
import { headsOf } from "../../heads/heads";
import { PATTERNS } from "../../heads/patterns";
import { columnProfile, highTokens, isRectangular, type Head } from "../../maps/analysis";
import { countAbove, figuresOf, pairsOf } from "../../maps/pairs";
import { format, percent } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { Facts, type Fact } from "../../ui/controls";
import { Terms, type Term } from "../../ui/explain";

// Figures come a frame after the maps: sorting the pairs of whole maps takes longer than drawing them.
export function HeadFacts({ head, stale, selection }: { head: Head; stale: boolean; selection: Selection }) {
  const app = useApp();
  const [described, setDescribed] = useState<Head | null>(null);
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => setDescribed(head));
    return () => cancelAnimationFrame(frame);
  }, [head]);
  if (!described) return null;
  const known = knownOf(app, described, selection);
  return (
    <>
      <Facts of={factsOf(app, described, known)} exact={described.exact && !stale} />
      {hasSimilarities(app.state) && <LongestOutputs overlap={known?.longest_overlap ?? null} />}
    </>
  );
}

// Says how many high pairs lengths explain; nothing if there are no pairs.
function LongestOutputs({ overlap }: { overlap: number | null }) {
  if (overlap === null) return null;
  return (
    <div class="muted">
      {percent(overlap)} of the high pairs are those of the longest outputs. <Terms of={["lengths"]} />
    </div>
  );
}

const NAMED = 4; // tokens that gather attention, by name

const LISTED: readonly (readonly [Figure, Term?])[] = [
  ["repeated_share"],
  ["same_sentence_share"],
  ["mean_distance"],
  ["focal_share"],
  ["separator_attention"],
  ["attention_entropy", "entropy"],
  ["snr_dprime", "dprime"],
];

const OF_ATTENTION = new Set<Figure>(["separator_attention", "attention_entropy"]);

// The figures of a head; those of pairs are of the similarities on screen. Those of parts are of the whole head.
function knownOf(app: App, head: Head, { layer, head: k }: Selection): Known | undefined {
  const { answer } = app.overview();
  const summary = k !== SUM && answer ? headsOf(app).figures(answer)[layer]?.[k] : undefined;
  return summary && !head.part && !isOfHeadSpace(app.state)
    ? { ...summary, ...onScreen(head, app.state.tau) }
    : summary;
}

function factsOf({ state }: App, head: Head, known: Known | undefined): Fact[] {
  const { tau, atau } = state;
  const pairs = head.exact && !head.part ? countAbove(pairsOf(head), tau) : (known?.high_pairs ?? NaN);
  const similar = hasSimilarities(state);
  const ofPairs: Fact[] = [
    {
      name: "Maximum m",
      value: format(head.maximum),
      title: "Largest similarity of two different tokens",
      help: "normalised",
    },
    {
      name: "High pairs",
      value: Number.isNaN(pairs) ? "–" : pairs.toLocaleString("en"),
      title: `Pairs with N ≥ ${tau}`,
      help: "pairs",
    },
  ];
  const ofColumns = (): Fact => ({
    name: "Attention gathers on",
    value: gatheringTokens(head, atau),
    title: `Tokens whose column sum is at least ${atau} of the largest`,
    help: "atau",
  });
  const listed = known && !isRectangular(head) ? LISTED.filter(([f]) => similar || OF_ATTENTION.has(f)) : [];
  return [
    ...(known?.profile ? patternFacts(known, isFile(state.model)) : []),
    ...(similar ? ofPairs : []),
    ...listed.map(([f, help]): Fact => {
      const figure = FIGURES[f];
      const value = figure.write(known ? valueOf(known, f) : null);
      return { name: figure.name, value, title: figure.title, ...(help && { help }) };
    }),
    ...(head.part ? [] : [ofColumns()]),
  ];
}

// The tokens with the largest column sums, by name and number.
function gatheringTokens({ attention, columns }: Head, threshold: number): string {
  const profile = columnProfile(attention, columns.n);
  const times = new Map<string, number>();
  for (const t of highTokens(profile, threshold).sort((a, b) => (profile[b] ?? 0) - (profile[a] ?? 0))) {
    const label = columns.labels[t] ?? "";
    times.set(label, (times.get(label) ?? 0) + 1);
  }
  const named = [...times].slice(0, NAMED).map(([token, n]) => (n > 1 ? `${token} ×${n}` : token));
  return named.length ? named.join(" · ") + (times.size > NAMED ? " …" : "") : "–";
}

// The figures of the high pairs on screen; the overview's are of plain similarities.
function onScreen(head: Head, tau: number): Partial<Known> {
  const pairs = pairsOf(head);
  const high = Array.from({ length: countAbove(pairs, tau) }, (_, k) => k);
  const { repeated, sameSentence, meanDistance, focalShare } = figuresOf(pairs, high, head.axis);
  return {
    repeated_share: repeated,
    same_sentence_share: sameSentence,
    mean_distance: meanDistance,
    focal_share: focalShare,
    snr_dprime: null,
    longest_overlap: null,
  };
}

// The head's pattern, and that in this text with the two largest fractions of attention.
function patternFacts(known: Known, ofFile: boolean): Fact[] {
  const written = PATTERNS.filter((pattern) => pattern !== "broad")
    .map((pattern) => ({ pattern, value: valueOf(known, pattern) ?? 0 }))
    .sort((a, b) => b.value - a.value)
    .map(({ pattern, value }) => `${FIGURES[pattern].short} ${percent(value)}`);
  const here = {
    name: ofFile ? "Pattern" : "In this text",
    value: `${patternHere(known)} (${written.slice(0, 2).join(", ")})`,
    title: `Fractions of attention: ${written.join(", ")}`,
  };
  if (ofFile) return [here]; // of its one text
  return [
    {
      name: "Pattern",
      value: patternName(known) || "…",
      title: "Of the model: the same for every text",
      help: "pattern",
    },
    here,
  ];
}
