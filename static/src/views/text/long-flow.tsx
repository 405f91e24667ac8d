// A long text as a listbox of tokens. Its blocks near the window have elements for their tokens.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { directionOf, escapeBidi } from "../../app/bidi";
import type { Axis } from "../../maps/analysis";
import { goalOf, isRightToLeft } from "../../ui/arrows";
import { gapOf, restOf, tokenAt, tokenOf, type TokenLook } from "../../ui/text-flow";
import { spansOf } from "../../ui/text-spans";
import { blocksOf, type Block } from "./blocks";

// Pixels above and below the window within which blocks have elements.
const MARGIN = "600px 0px";

interface Flow {
  axis: Axis;
  texts: readonly string[]; // by token type
  lookKey: object; // another one when a token's look changes
  lookOf: (t: number) => TokenLook;
  goal: { t: number } | null; // a token to show and to focus, once for each object
  onNear: (near: readonly Block[]) => void; // after other blocks got elements
}

// Moves among all tokens by keys, whether they have elements or not. Returns false for other keys.
type Move = (e: KeyboardEvent) => boolean;

export function LongFlow(props: Flow & { move: { current: Move | null } }) {
  const { axis, texts, lookKey, lookOf, goal, onNear } = props;
  const place = useRef<HTMLDivElement>(null);
  const [stop, setStop] = useState(0); // the token that the Tab key stops at
  const pending = useRef(-1);
  const parts = useMemo(
    () =>
      texts.map((source, type) => {
        const { spans, rest } = spansOf(axis, source, type);
        return { dir: directionOf(source || axis.labels.join(" ")), blocks: blocksOf(spans, axis.sentences), rest };
      }),
    [axis, ...texts],
  );
  const blocks = useMemo(() => parts.flatMap((part) => part.blocks), [parts]);
  const near = useNear(place, blocks);
  const at = blocks.findIndex(({ from, to }) => from <= stop && stop < to);
  const shown = new Set([...near, ...[at - 1, at, at + 1].map((k) => blocks[k]?.from ?? -1)]);
  const shownKey = [...shown].join(" ");

  const reach = (t: number): void => {
    pending.current = t;
    setStop(t);
  };
  useEffect(() => void (goal && reach(goal.t)), [goal]);
  useLayoutEffect(() => {
    const token =
      pending.current >= 0 ? place.current?.querySelector<HTMLElement>(`[data-t="${pending.current}"]`) : null;
    if (!token) return;
    pending.current = -1;
    token.focus({ preventScroll: true });
    const { top, bottom } = token.getBoundingClientRect();
    if (top < 120 || bottom > innerHeight - 60) token.scrollIntoView({ block: "center" });
  });
  useLayoutEffect(() => onNear(blocks.filter(({ from }) => shown.has(from))), [shownKey, blocks]);
  props.move.current = (e) => {
    const t = tokenAt(document.activeElement);
    const next = goalOf(e, t, axis.n, 1, isRightToLeft(document.activeElement));
    if (t < 0 || next === undefined) return false;
    reach(next);
    return true;
  };
  return (
    <div
      class="flow"
      role="listbox"
      aria-label="Tokens of the text"
      aria-multiselectable
      ref={place}
      onFocusCapture={(e) => {
        const t = tokenAt(e.target);
        if (t >= 0 && pending.current < 0) setStop(t);
      }}
    >
      {parts.map(({ dir, blocks: own, rest }, type) => (
        <div class="long-text" key={type} role="group" dir={dir}>
          {own.map((block) => {
            const here = block.from <= stop && stop < block.to ? stop : -1;
            const isShown = shown.has(block.from);
            return <BlockOf key={block.from} {...{ axis, block, isShown, stop: here, lookKey, lookOf }} />;
          })}
          {rest.trim() && <p>{restOf(rest)}</p>}
        </div>
      ))}
    </div>
  );
}

// The blocks within or near the window, by their first token.
function useNear(place: { current: HTMLElement | null }, blocks: readonly Block[]): ReadonlySet<number> {
  const [near, setNear] = useState<ReadonlySet<number>>(() => new Set(blocks.slice(0, 4).map(({ from }) => from)));
  useEffect(() => {
    const now = new Set<number>();
    const observer = new IntersectionObserver(
      (changes) => {
        for (const { target, isIntersecting } of changes) {
          const from = Number((target as HTMLElement).dataset.from);
          if (isIntersecting) now.add(from);
          else now.delete(from);
        }
        setNear(new Set(now));
      },
      { rootMargin: MARGIN },
    );
    for (const block of place.current?.querySelectorAll("[data-from]") ?? []) observer.observe(block);
    return () => observer.disconnect();
  }, [blocks]);
  return near;
}

interface Shown {
  axis: Axis;
  block: Block;
  isShown: boolean;
  stop: number; // -1: in another block
  lookKey: object;
  lookOf: (t: number) => TokenLook;
}

// Drawn again only if it changes: a text has many blocks. No useMemo, as a kept tree of elements leads to those before it,
// which then stay in memory.
class BlockOf extends Component<Shown> {
  override shouldComponentUpdate(next: Shown): boolean {
    const { axis, block, isShown, stop, lookKey } = this.props;
    const looks = isShown && (stop !== next.stop || lookKey !== next.lookKey);
    return axis !== next.axis || block !== next.block || isShown !== next.isShown || looks;
  }

  render({ axis, block, isShown, stop, lookOf }: Shown) {
    const { from, to, spans, tail } = block;
    const [first] = spans;
    const words: ComponentChildren = isShown
      ? spans.flatMap((span) => [
          ...gapOf(span),
          tokenOf(axis, span, lookOf(span.t), { stop: span.t === stop, size: axis.n }),
        ])
      : [
          first && gapOf(first),
          spans.map(({ between, words: own }, k) => (k ? escapeBidi(between) : "") + own).join(""),
        ];
    return (
      <p data-from={from} data-to={to}>
        <span class="lines">
          {words}
          {escapeBidi(tail)}
        </span>
      </p>
    );
  }
}
