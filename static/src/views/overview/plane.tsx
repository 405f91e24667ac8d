// The heads as points of the plane: similar heads are near each other. Coloured by pattern or by layer; a click opens
// one. One stop for the Tab key, arrows go to the next head in their direction.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { distancesRequest } from "../../app/requests";
import { nearestOf, type Placed, type Planner } from "../../heads/distances";
import { FIGURES, PATTERN_NAMES, patternOf, type Known, type Label } from "../../heads/figures";
import { HeadItem } from "../../heads/head-map";
import type { Place } from "../../heads/order";
import { PATTERNS } from "../../heads/patterns";
import { hueAt, lutOf, tinted, type Theme } from "../../maps/colour";
import { placesUpTo } from "../../maps/linear";
import { format, maximumOf, minimumOf } from "../../maps/scale";
import { classes } from "../../ui/classes";
import { useApp } from "../../ui/context";
import { StateSegmented } from "../../ui/state-controls";
import { useResize } from "../../ui/resize";
import { StatusLine, statusOf } from "../../ui/status";

const NEAREST = 8;
const PAD = 5; // per cent of the frame left free at each side
const WIDEST = 1.6; // frame, width to height

const DISTANCE_CHOICES = [
  { value: "cka", label: "Outputs (CKA)", title: "1 − unbiased linear CKA of the heads’ outputs" },
  { value: "js", label: "Attention (JS)", title: "Jensen-Shannon divergence of the maps, mean over rows, in nats" },
] as const;
const PAINT_CHOICES = [
  { value: "pattern", label: "Pattern" },
  { value: "layer", label: "Layer" },
] as const;

interface Point extends Place {
  left: number; // per cent
  top: number;
}

interface Key {
  name: string;
  ground: string;
  title: string;
}

const spanOf = (v: Float64Array): { middle: number; size: number } => {
  const [low, high] = [minimumOf(v), maximumOf(v)];
  return { middle: (low + high) / 2, size: Math.max(1e-9, high - low) };
};

// One scale both ways: the frame takes the shape of the points, within limits.
function layOut({ heads, plane: { x, y } }: Placed, wide: number): { points: Point[]; shape: number } {
  const [across, down] = [spanOf(x), spanOf(y)];
  const shape = Math.min(WIDEST, Math.max(1, across.size / down.size));
  const unit = Math.max(across.size / shape, down.size);
  const place = (v: number, middle: number, length: number): number =>
    50 + ((100 - 2 * PAD) * (v - middle)) / (unit * length);
  const points = heads.map((at, n) => ({
    l: Math.floor(at / wide),
    h: at % wide,
    left: place(x[n] ?? 0, across.middle, shape),
    top: 100 - place(y[n] ?? 0, down.middle, 1),
  }));
  return { points, shape };
}

// Hues as far apart as eight can be; greys for broad attention and for none of the patterns.
const HUES: Partial<Record<Label, number>> = {
  previous: 250,
  next: 140,
  self: 195,
  first: 90,
  separator: 55,
  punctuation: 115,
  repeated: 20,
  sentence: 305,
  induction: 335,
};
const GREYS = { light: { broad: "#cdd1d5", mixed: "#f4f4f2" }, dark: { broad: "#4a5057", mixed: "#22262a" } };

function colourOf(pattern: Label | "", theme: Theme): string {
  const hue = pattern && HUES[pattern];
  return hue ? hueAt(hue, theme) : GREYS[theme][pattern ? "broad" : "mixed"];
}

function styleOf(
  { state, theme }: App,
  pattern: Label | "",
  l: number,
  layers: number,
): { background: string; color: string } {
  if (state.paint === "layer") return tinted(lutOf(state.map, "figure", theme), placesUpTo(layers - 1)(l));
  return { background: colourOf(pattern, theme), color: theme === "light" ? "#000000" : "#ffffff" };
}

function keysOf(app: App, patterns: readonly (Label | "")[], layers: number): Key[] {
  if (app.state.paint === "layer")
    return Array.from({ length: layers }, (_, l) => ({
      name: `layer ${l}`,
      ground: styleOf(app, "", l, layers).background,
      title: "",
    }));
  return [...PATTERNS, "induction" as const, "" as const].flatMap((pattern) => {
    const count = patterns.filter((p) => p === pattern).length;
    const title = pattern && FIGURES[pattern].title;
    return count
      ? [{ name: `${PATTERN_NAMES[pattern || "none"]} ${count}`, ground: colourOf(pattern, app.theme), title }]
      : [];
  });
}

export function HeadPlane(props: {
  overview: Answer;
  known: Known[][];
  chosen: readonly Place[]; // the heads that are looked for
  planner: Planner;
  announce: (l: number, head: number, aloud: boolean) => void;
}) {
  const app = useApp();
  const { overview, known } = props;
  const { state } = app;
  const entry = app.cache.want(distancesRequest(state));
  const placed = entry.answer && props.planner.of(entry.answer);
  const wide = overview.heads.length;
  const { points, shape } = useMemo(() => (placed ? layOut(placed, wide) : { points: [], shape: 1 }), [placed, wide]);
  const square = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [over, setOver] = useState(-1); // index into points
  useResize(square, setSize);

  const selection = app.selection(overview);
  const layers = overview.layers.length;
  const sought = new Set(props.chosen.map(({ l, h }) => l * wide + h));
  const isChosen = ({ l, h }: Place): boolean => l === selection.layer && h === selection.head;
  const isFaint = ({ l, h }: Place): boolean => !sought.has(l * wide + h);
  const patterns = points.map(({ l, h }) => {
    const head = known[l]?.[h];
    return head ? patternOf(head) : "";
  });
  // The chosen head is labelled first, then those that are looked for.
  const labelled = useMemo(() => {
    const places = points.map(({ left, top }) => ({ x: (left * size.width) / 100, y: (top * size.height) / 100 }));
    const weight = (p: Point): number => (isChosen(p) ? 2 : isFaint(p) ? 0 : 1);
    const order = points.map((p, n) => ({ n, weight: weight(p) })).sort((a, b) => b.weight - a.weight);
    return labelledOf(
      places,
      order.map(({ n }) => n),
    );
  }, [points, size.width, size.height, selection.layer, selection.head, [...sought].join()]);
  const left = layers * wide - (placed?.heads.length ?? 0);
  const about = placed
    ? `Classical scaling of the distances into two dimensions, stress ${format(placed.plane.stress)} (0: the plane holds every distance). Where names would overlap, a point shows its own under the pointer.` +
      (left ? ` ${left} heads put out the same for every token and have no place.` : "")
    : "";
  const keys = keysOf(app, patterns, layers);
  const painted = points.map((point, n) => ({
    ...point,
    pattern: patterns[n] ?? "",
    style: styleOf(app, patterns[n] ?? "", point.l, layers),
    classes: classes(!labelled.has(n) && "dot", isFaint(point) && "faint", isChosen(point) && "chosen"),
  }));

  const point = (n: number, aloud = false): void => {
    setOver(n);
    const at = points[n];
    if (at) props.announce(at.l, at.h, aloud);
    else app.announce("");
  };
  const status = statusOf(app, entry);
  return (
    <div class="head-plane">
      <div class="toolbar">
        <StateSegmented legend="Distance of" help="distance" field="distance" choices={DISTANCE_CHOICES} />
        <StateSegmented legend="Coloured by" help="pattern" field="paint" choices={PAINT_CHOICES} />
      </div>
      {status}
      {!status && !placed && <StatusLine>Laying the heads out…</StatusLine>}
      <div class="plane-body">
        <div>
          <Points of={painted} shape={shape} busy={!placed} square={square} onPoint={point} />
          <p class="muted caption">{about}</p>
        </div>
        <div class="plane-side">
          <ul class="plane-legend">
            {keys.map(({ name, ground, title }) => (
              <li key={name} title={title}>
                <i style={{ background: ground }} />
                {name}
              </li>
            ))}
          </ul>
          {entry.answer && (
            <Nearest answer={entry.answer} wide={wide} to={points[over] ?? { l: selection.layer, h: selection.head }} />
          )}
        </div>
      </div>
    </div>
  );
}

interface Painted extends Point {
  pattern: Label | "";
  style: { background: string; color: string };
  classes: string;
}

function Points(props: {
  of: readonly Painted[];
  shape: number; // width to height
  busy: boolean;
  square: { current: HTMLDivElement | null };
  onPoint: (n: number, aloud?: boolean) => void; // -1: at none any more
}) {
  const app = useApp();
  const { of: points, square, onPoint } = props;
  const onKeyDown = (e: KeyboardEvent): void => {
    const buttons = [...(square.current?.querySelectorAll("button") ?? [])];
    const at = buttons.findIndex((button) => button === document.activeElement);
    const way = WAYS[e.key];
    const here = points[at];
    if (!here || !way) return;
    e.preventDefault();
    const next = nextIn(points, here, way);
    const [from, to] = [buttons[at], next && buttons[points.indexOf(next)]];
    if (!from || !to) return;
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };
  return (
    <div
      class="plane"
      role="group"
      aria-label="Heads as points"
      aria-busy={props.busy}
      style={{ aspectRatio: String(props.shape) }}
      ref={square}
      onKeyDown={onKeyDown}
      onPointerLeave={() => onPoint(-1)}
    >
      {points.map(({ l, h, left, top, pattern, style, classes: own }, n) => (
        <button
          key={`${l}.${h}`}
          type="button"
          class={own}
          tabIndex={n ? -1 : 0}
          style={{ left: `${left}%`, top: `${top}%`, ...style }}
          aria-label={`${l}·${h}: layer ${l}, head ${h}${pattern && `, ${pattern}`}`}
          onClick={() => app.open(l, h)}
          onPointerEnter={() => onPoint(n)}
          onFocus={() => onPoint(n, true)}
        >
          <span>
            {l}·{h}
          </span>
        </button>
      ))}
    </div>
  );
}

// The heads nearest to the one under the pointer, or to the chosen one.
function Nearest({ answer, wide, to }: { answer: Answer; wide: number; to: Place }) {
  const app = useApp();
  const { l, h } = { l: to.l, h: Math.max(0, to.h) }; // the sum has the first head's
  return (
    <section class="card nearest">
      <h2>
        Nearest to layer {l} head {h}
      </h2>
      <ol class="ranked">
        {nearestOf(answer, l * wide + h)
          .slice(0, NEAREST)
          .map(({ place, distance }) => (
            <HeadItem
              key={place}
              layer={Math.floor(place / wide)}
              head={place % wide}
              value={format(distance)}
              onOpen={(layer, head) => app.open(layer, head)}
            />
          ))}
      </ol>
    </section>
  );
}

const WAYS: Record<string, readonly [dx: number, dy: number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

const LABEL = { wide: 34, high: 19 }, // CSS px of a point with its label
  DOT = 11; // and of one without

// Returns the points whose label overlaps no other point or label; the first in order come first.
export function labelledOf(places: readonly { x: number; y: number }[], order: readonly number[]): Set<number> {
  const labelled = new Set<number>();
  for (const n of order) {
    const at = places[n];
    if (!at) continue;
    const free = places.every((other, k) => {
      const named = labelled.has(k);
      const wide = named ? LABEL.wide : (LABEL.wide + DOT) / 2;
      const high = named ? LABEL.high : (LABEL.high + DOT) / 2;
      return k === n || Math.abs(other.x - at.x) >= wide || Math.abs(other.y - at.y) >= high;
    });
    if (free || !labelled.size) labelled.add(n); // the first always: the head that is chosen
  }
  return labelled;
}

// The nearest point within 45 degrees of the way; sideways counts double.
export function nextIn<P extends { left: number; top: number }>(
  points: readonly P[],
  from: P,
  [dx, dy]: readonly [number, number],
): P | null {
  let best: P | null = null,
    least = Infinity;
  for (const point of points) {
    const [x, y] = [point.left - from.left, point.top - from.top];
    const along = x * dx + y * dy,
      across = Math.abs(x * dy) + Math.abs(y * dx);
    if (point === from || along <= 0 || across > along || along + 2 * across >= least) continue;
    best = point;
    least = along + 2 * across;
  }
  return best;
}
