// One head in full: attention and similarity side by side under one cross-hair.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { FIGURES, patternHere, patternName, valueOf, type Figure, type Known } from "../../heads/figures";
import { MEASURE_FIELDS, MeasureControls } from "../../heads/measure-controls";
import { isOfHeadSpace, measuredRequest } from "../../app/measures";
import { attentionName } from "../../heads/measures";
import { PairRanking, pairNumbers } from "../../heads/pair-ranking";
import { PATTERNS } from "../../heads/patterns";
import { HeadPicker } from "../../heads/picker";
import { nameOf, SUM, type Selection } from "../../app/selection";
import { TWO_SIDED_MOST, TwoSided } from "../../heads/two-sided";
import { columnProfile, highTokens, isRectangular, type Axis, type Head } from "../../maps/analysis";
import { countAbove, figuresOf, pairsOf } from "../../maps/pairs";
import { Plate } from "../../ui/plates";
import type { Viewport } from "../../maps/viewport";
import { format, percent } from "../../maps/scale";
import { hasSimilarities, isFile } from "../../app/sources";
import { savedRequest } from "../../app/requests";
import { isCross, stackOf } from "../../app/stacks";
import type { Exportable } from "../../saving/export";
import { figureRequest, madeOf } from "../../saving/provenance";
import { Notes, type PinnedCell } from "../../story/notes";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Alternative, Button, Disclosure, type Fact, Facts } from "../../ui/controls";
import { StateSegmented, StateSelect, StateToggle } from "../../ui/state-controls";
import { type Term, Terms } from "../../ui/explain";
import { statusOf } from "../../ui/status";
import { Toolbar } from "../../ui/toolbar";
import { Columns } from "../../ui/table";
import { LongHead } from "./long-head";
import { Plates, QUANTITIES } from "./plates";
import { headsOf } from "../../heads/heads";
import { isTooLong } from "../../heads/pooled";
import { pinnedIn, pinOf } from "../../maps/axis";
// Overlays of maps without similarities.
const OVERLAYS_OF_ATTENTION = [
  ["none", "None"],
  ["mask", "Mask (Fig. 5)"],
] as const;

const ZOOM = 1.6; // by one click

export function HeadView() {
  const app = useApp();
  const { state } = app;
  const plates = useMemo(() => new Plates(app), [app]);
  const { head, entry, selection } = headsOf(app).head(state);
  const tooLong = isTooLong(entry.answer);
  useLayoutEffect(() => plates.update(head));
  const pinned = head && pinnedIn(head, state);
  useExport(() => (head && entry.answer ? headExport(app, plates, head, entry.answer, selection) : null), !tooLong);
  const alike = (): void => app.go("overview", { seek: `like ${selection.layer}·${selection.head}`, only: "all" });
  const typical = (): void => app.go("corpus", { ...selection, typical: true });
  const shown = head && plates.of(head);
  const quantities = QUANTITIES.filter((quantity) => quantity === "attention" || hasSimilarities(state));
  return (
    <section class="view head" aria-label="Maps">
      <div class="toolbar">
        <HeadPicker selection={selection} quantities={quantities} play />
        {!tooLong && <Zoom plates={plates} />}
      </div>
      <Controls scaleOnly={tooLong}>
        {head && selection.head !== SUM && !isFile(state.model) && stackOf(state) === "encoder" && (
          <>
            <Button onClick={alike}>Heads like this one</Button>
            <Button onClick={typical} title="This head on its most typical texts of a corpus run">
              Typical texts
            </Button>
          </>
        )}
      </Controls>
      {statusOf(app, entry, head !== null)}
      {entry.answer && tooLong && <LongHead overview={entry.answer} selection={selection} />}
      <div class="maps-and-lines" hidden={entry.answer !== null && tooLong}>
        <div class="of-maps">
          {/* Hidden, not left out: the next head's map takes over the focus. */}
          <div class="plates" hidden={!head}>
            {quantities.map((quantity) => (
              <Plate
                key={quantity}
                title={shown?.[quantity].title ?? ""}
                note={shown?.[quantity].note ?? ""}
                bar={shown?.[quantity].bar ?? null}
                heatmap={plates.maps[quantity]}
              />
            ))}
          </div>
          {head && <HeadFacts head={head} selection={selection} />}
          {head && <Notes selection={selection} cell={pinned && cellOf(head, pinned)} />}
          {head && !isRectangular(head) && <PairRanking axis={head.axis} pair={pinned} />}
          {head && (
            <Alternative title="Pinned row as a table">
              <PinnedRow head={head} row={pinned?.[0] ?? 0} />
            </Alternative>
          )}
        </div>
        {head && <Sided head={head} />}
      </div>
    </section>
  );
}

// The pinned cell by its token positions and in words.
function cellOf(head: Head, pinned: readonly [number, number]): PinnedCell {
  const { axis, columns } = head;
  const [i, j] = pinned;
  const name = (of: Axis, t: number): string => `${of.labels[t]} ${of.positions[t]}`;
  const [query = 0, key = 0] = pinOf(head, pinned);
  return { at: [query, key], about: `${name(axis, i)} → ${name(columns, j)}` };
}

function Zoom({ plates: { viewport } }: { plates: Plates }) {
  const { zoom } = useApp().state;
  const button = (label: string, title: string, act: () => void, disabled = false) => (
    <Button class="icon" aria-label={title} title={title} disabled={disabled} onClick={act}>
      {label}
    </Button>
  );
  return (
    <div class="zoom" role="toolbar" aria-label="Zoom">
      {button("−", "Zoom out", () => viewport.zoom(1 / ZOOM), zoom.length === 0)}
      {button("+", "Zoom in", () => viewport.zoom(ZOOM))}
      {button("⤢", "Whole map", () => viewport.reset())}
    </div>
  );
}

// Pooled maps and their windows follow the scale only.
function Controls({ scaleOnly, children }: { scaleOnly: boolean; children: ComponentChildren }) {
  const { state } = useApp();
  const cross = isCross(state);
  if (scaleOnly)
    return (
      <Toolbar terms={["head", "scale"]}>
        <StateSegmented field="scale" />
      </Toolbar>
    );
  const more = (
    <>
      {!cross && <StateSelect field="diag" />}
      <MeasureControls />
      {!cross && <StateToggle field="lines" />}
    </>
  );
  return (
    <Toolbar
      terms={["head", "scale", "overlay", "diagonal", "sentences", "weighted", "space"]}
      more={more}
      rare={["diag", "lines", ...MEASURE_FIELDS]}
    >
      <StateSegmented field="scale" />
      {!cross && (
        <StateSelect field="overlay" {...(hasSimilarities(state) ? {} : { options: OVERLAYS_OF_ATTENTION })} />
      )}
      {children}
    </Toolbar>
  );
}

const SIDED_AT_ONCE = 30; // tokens of a text whose lines are shown unasked

// Only while the text is short: of a long one nobody could follow a line.
function Sided({ head }: { head: Head }) {
  const app = useApp();
  const { sided } = app.state;
  const n = Math.max(head.axis.n, head.columns.n);
  const long = n > TWO_SIDED_MOST;
  const open = sided === "auto" ? n <= SIDED_AT_ONCE : sided === "1";
  return (
    <Disclosure title="Lines between two columns" open={open} onToggle={() => app.set({ sided: open ? "0" : "1" })}>
      {long ? (
        <p class="muted">
          For texts of at most {TWO_SIDED_MOST} tokens; this one has {n}. Set “Tokens at most” to see its beginning.
        </p>
      ) : (
        <TwoSided head={head} />
      )}
    </Disclosure>
  );
}

// Figures come a frame after the maps: sorting the pairs of a long text takes longer than drawing it.
function HeadFacts({ head, selection }: { head: Head; selection: Selection }) {
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
      <Facts of={factsOf(app, described, known)} exact={described.exact} />
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

// The figures of a head; those of pairs are of the similarities on screen.
function knownOf(app: App, head: Head, { layer, head: k }: Selection): Known | undefined {
  const { answer } = app.overview();
  const summary = k !== SUM && answer ? headsOf(app).figures(answer)[layer]?.[k] : undefined;
  return summary && !isOfHeadSpace(app.state) ? { ...summary, ...onScreen(head, app.state.tau) } : summary;
}

function factsOf(app: App, head: Head, known: Known | undefined): Fact[] {
  const { tau, atau } = app.state;
  const pairs = head.exact ? countAbove(pairsOf(head), tau) : (known?.high_pairs ?? NaN);
  const similar = hasSimilarities(app.state);
  const facts: (Fact & { similar?: true })[] = [
    ...(known?.profile ? patternFacts(known, isFile(app.state.model)) : []),
    {
      similar: true,
      name: "Maximum m",
      value: format(head.maximum),
      title: "Largest similarity of two different tokens",
      help: "normalised",
    },
    {
      similar: true,
      name: "High pairs",
      value: pairs.toLocaleString("en"),
      title: `Pairs with N ≥ ${tau}`,
      help: "pairs",
    },
    ...(known && !isRectangular(head)
      ? LISTED.map(([f, help]) => ({
          ...(!OF_ATTENTION.has(f) && { similar: true as const }),
          name: FIGURES[f].name,
          value: FIGURES[f].write(valueOf(known, f)),
          title: FIGURES[f].title,
          ...(help && { help }),
        }))
      : []),
    {
      name: "Attention gathers on",
      value: gatheringTokens(head, atau),
      title: `Tokens whose column sum is at least ${atau} of the largest`,
      help: "atau",
    },
  ];
  return facts.filter((fact) => similar || !fact.similar);
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

function PinnedRow({ head, row }: { head: Head; row: number }) {
  const { state } = useApp();
  const { axis, columns, attention, similarity, normalized } = head;
  const weighted = state.weigh && head.weighted;
  const shown = weighted || attention;
  const cross = isRectangular(head); // its similarities have other columns
  const maps = cross ? [shown] : [shown, similarity, normalized];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Values of the row of ${axis.labels[row]}`}>
      <table>
        <caption>
          Query: {axis.labels[row]} ({row})
        </caption>
        <Columns of={["Position", "Token", attentionName(state), ...(cross ? [] : ["Similarity S", "Normalised N"])]} />
        <tbody>
          {columns.labels.map((label, j) => (
            <tr key={j}>
              <td>{j}</td>
              <th scope="row">{label}</th>
              {maps.map((map, n) => (
                <td key={n}>{format(map[row * columns.n + j])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Rows and columns of attention in the window, row by row.
function cellsIn({ axis, columns }: Head, { x, y, span, n }: Viewport): [number, number][] {
  const visible = (count: number, from: number): number[] => {
    const unit = Math.max(n, 1) / count; // the sides of a cell
    return Array.from({ length: count }, (_, t) => t).filter((t) => (t + 1) * unit > from && t * unit < from + span);
  };
  const across = visible(columns.n, x);
  return visible(axis.n, y).flatMap((i) => across.map((j): [number, number] => [i, j]));
}

function headExport(app: App, plates: Plates, head: Head, answer: Answer, selection: Selection): Exportable {
  const { state } = app;
  const { axis, columns, weighted } = head;
  const cross = isRectangular(head);
  const maps: [string, Float32Array][] = [
    ["attention", head.attention],
    ...(weighted ? [["weighted_norms", weighted] as [string, Float32Array]] : []),
    ...(cross
      ? []
      : ([
          ["similarity", head.similarity],
          ["normalized", head.normalized],
        ] as [string, Float32Array][])),
  ];
  const sides = cross ? ["target", "source"] : ["i", "j"];
  const rows = (): (string | number)[][] => [
    [...sides, ...sides.map((side) => `token_${side}`), ...maps.map(([name]) => name)],
    ...cellsIn(head, plates.viewport).map(([i, j]) => [
      ...[axis.positions[i] ?? i, columns.positions[j] ?? j],
      ...[axis.labels[i] ?? "", columns.labels[j] ?? ""],
      ...maps.map(([, map]) => map[i * columns.n + j] ?? NaN),
    ]),
  ];
  const outputs = ["attentions", "similarities", "head_outputs", "summary"] as const;
  const request = measuredRequest(savedRequest(state, [selection.layer], selection.head, [...outputs]), state);
  const made = madeOf(app, answer, `head-${nameOf(selection)}`, request);
  const heads = cross ? null : pairNumbers(app, axis, pinnedIn(head, state));
  const drawn = selection.head !== SUM && !weighted; // the server draws no other maps
  const figure =
    drawn &&
    figureRequest(request, {
      kind: "head",
      show: cross ? "attention" : "both",
      merge_words: state.words,
      colour_scale: state.scale === "root" ? "square_root" : state.scale,
    });
  return { ...made, rows, heads, figure };
}
