// The text with its tokens as elements in place: white space included, special tokens as chips, the cut end in grey.
// A long text is cut into blocks. Those near the window have an element for each token, the others are plain text.
import { Component, type ComponentChildren, type CSSProperties } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { directionOf, escapeBidi } from "../app/bidi";
import type { Axis } from "../maps/analysis";
import { goalOf, isRightToLeft } from "./arrows";
import { classes } from "./classes";
import { blocksOf, spansOf, type Block, type Span } from "./text-spans";

export interface TokenLook {
  class?: string;
  style?: CSSProperties;
  chosen?: boolean; // of a listbox
  note?: string; // under the token
  title?: string;
}

interface Looks {
  lookOf: (t: number) => TokenLook;
  lookKey?: object; // another one when a token's look changes; without it looks are always made anew
}

// With a label it is a listbox with one stop for the Tab key, in which keys reach all tokens.
export function TextFlow(
  props: Looks & {
    axis: Axis;
    texts: readonly string[]; // by token type
    names?: readonly string[]; // of the texts, above each
    label?: string;
    multiple?: boolean;
    goal?: { t: number } | null; // a token to show and to focus, once for each object
    onNear?: (near: readonly Block[]) => void; // after other blocks got elements
  },
) {
  const { axis, texts, names, label, goal, onNear, lookOf, lookKey = {} } = props;
  const place = useRef<HTMLDivElement>(null);
  const [stopAt, setStop] = useState(0); // the token that the Tab key stops at
  const stop = Math.min(stopAt, axis.n - 1);
  const pending = useRef(-1); // the token that gets the focus once it has an element
  const tabbed = useRef<HTMLElement | null | undefined>(null);
  const parts = useMemo(
    () =>
      texts.map((source, type) => {
        const { spans, rest } = spansOf(axis, source, type);
        return { source, dir: directionOf(source || axis.labels.join(" ")), blocks: blocksOf(spans, axis), rest };
      }),
    [axis, ...texts],
  );
  const blocks = useMemo(() => parts.flatMap((part) => part.blocks), [parts]);
  const near = useNear(place, blocks, axis.n);
  const at = blocks.findIndex((block) => isIn(block, stop));
  const shown = new Set([...near, ...[at - 1, at, at + 1].map((k) => blocks[k]?.from ?? -1)]);
  const shownKey = [...shown].join(" ");

  const focusPending = (): void => {
    const token = place.current?.querySelector<HTMLElement>(`[data-t="${pending.current}"]`);
    if (!token) return; // its block gets elements first
    pending.current = -1;
    token.focus({ preventScroll: true });
    const { top, bottom } = token.getBoundingClientRect();
    if (top < 120 || bottom > innerHeight - 60) token.scrollIntoView({ block: "center" });
  };
  const reach = (t: number): void => {
    pending.current = t;
    setStop(t);
    focusPending();
  };
  useEffect(() => void (goal && reach(goal.t)), [goal]);
  useLayoutEffect(() => {
    // Set here, as tokens are not drawn again for it.
    const token = label ? place.current?.querySelector<HTMLElement>(`[data-t="${stop}"]`) : null;
    if (tabbed.current !== token) tabbed.current?.setAttribute("tabindex", "-1");
    token?.setAttribute("tabindex", "0");
    tabbed.current = token;
    focusPending();
  });
  useLayoutEffect(() => onNear?.(blocks.filter(({ from }) => shown.has(from))), [shownKey, blocks]);
  const onKeyDown = (e: KeyboardEvent): void => {
    const t = tokenAt(document.activeElement);
    const next = goalOf(e, t, axis.n, 1, isRightToLeft(document.activeElement));
    if (t < 0 || next === undefined) return;
    e.preventDefault();
    reach(next);
  };
  const onFocus = (e: FocusEvent): void => {
    const t = tokenAt(e.target);
    if (t >= 0 && pending.current < 0) setStop(t);
  };
  const listbox = label && {
    ...({ role: "listbox", "aria-label": label, "aria-multiselectable": props.multiple } as const),
    ...{ onKeyDown, onFocusCapture: onFocus },
  };
  return (
    <div class="flow" ref={place} {...(listbox || {})}>
      {parts.map(
        ({ source, dir, blocks: own, rest }, type) =>
          (source || own.length > 0) && (
            <div class="one-text" key={type} role={label ? "group" : undefined} aria-label={names?.[type]} dir={dir}>
              {names && <small class="text-name">{names[type]}</small>}
              {own.map((block, k) => (
                <BlockOf
                  key={block.from}
                  {...{ axis, block, lookOf, lookKey }}
                  rest={k + 1 < own.length ? "" : rest}
                  shown={shown.has(block.from)}
                  option={Boolean(label)}
                />
              ))}
              {!own.length && <p>{restOf(rest)}</p>}
            </div>
          ),
      )}
    </div>
  );
}

const isIn = ({ from, to }: Block, t: number): boolean => from <= t && t < to;

// Pixels above and below the window within which blocks have elements.
const MARGIN = "600px 0px";
const FIRST = 4; // blocks that have elements before the window is known
const ALL_MOST = 2048; // tokens of a text whose blocks always have elements: making them costs the wheel more than keeping

// The blocks within or near the window, by their first token.
function useNear(place: { current: HTMLElement | null }, blocks: readonly Block[], n: number): ReadonlySet<number> {
  const first = useMemo(() => new Set(blocks.slice(0, n > ALL_MOST ? FIRST : n).map(({ from }) => from)), [blocks]);
  const [seen, setSeen] = useState<{ of: readonly Block[]; near: ReadonlySet<number> } | null>(null);
  useEffect(() => {
    if (n <= ALL_MOST) return undefined;
    const near = new Set<number>();
    const observer = new IntersectionObserver(
      (changes) => {
        for (const { target, isIntersecting } of changes) {
          const from = Number((target as HTMLElement).dataset.from);
          if (isIntersecting) near.add(from);
          else near.delete(from);
        }
        setSeen({ of: blocks, near: new Set(near) });
      },
      { rootMargin: MARGIN },
    );
    for (const block of place.current?.querySelectorAll("[data-from]") ?? []) observer.observe(block);
    return () => observer.disconnect();
  }, [blocks]);
  return seen?.of === blocks ? seen.near : first;
}

interface Shown extends Looks {
  axis: Axis;
  block: Block;
  rest: string; // behind it, not analysed
  shown: boolean;
  option: boolean; // of a listbox
}

// Drawn again only if it changes: a text has many blocks. No useMemo, as a kept tree of elements leads to those before it,
// which then stay in memory.
class BlockOf extends Component<Shown> {
  override shouldComponentUpdate(next: Shown): boolean {
    const { axis, block, rest, shown, lookKey } = this.props;
    const looks = shown && lookKey !== next.lookKey;
    return axis !== next.axis || block !== next.block || rest !== next.rest || shown !== next.shown || looks;
  }

  render({ axis, block, rest, shown, option, lookOf }: Shown) {
    const { from, to, spans, tail } = block;
    const [first] = spans;
    const words: ComponentChildren = shown
      ? spans.flatMap((span) => [...gapOf(span), tokenOf(axis, span, lookOf(span.t), option)])
      : [
          first && gapOf(first),
          spans.map(({ between, words: own }, k) => (k ? escapeBidi(between) : "") + own).join(""),
        ];
    return (
      <p data-from={from} data-to={to}>
        <span class="lines">
          {words}
          {escapeBidi(tail)}
          {restOf(rest)}
        </span>
      </p>
    );
  }
}

const WRITTEN = "Written by the model";

function tokenOf(axis: Axis, { t, words }: Span, look: TokenLook, isOption: boolean): ComponentChildren {
  const { class: own, style, chosen, note, title } = look;
  const place = { "aria-posinset": t + 1, "aria-setsize": axis.n };
  const option = { role: "option", "aria-selected": chosen, tabIndex: -1, ...place } as const;
  return (
    <span
      key={t}
      class={classes(
        "token",
        axis.special[t] && "special",
        axis.unknown[t] && "unknown",
        axis.generated[t] && "generated",
        own,
      )}
      style={style ?? {}}
      title={
        axis.unknown[t]
          ? `Not in the vocabulary: the model sees ${axis.labels[t]}`
          : (title ?? (axis.generated[t] ? WRITTEN : undefined))
      }
      data-t={t}
      {...(isOption ? option : {})}
    >
      {note ? (
        <ruby>
          {words}
          <rt>{note}</rt>
        </ruby>
      ) : (
        words
      )}
    </span>
  );
}

// The text before a token.
const gapOf = ({ between, cut }: Span): ComponentChildren[] =>
  between ? [cut ? restOf(between) : escapeBidi(between)] : [];

// Text that was cut off is grey.
const restOf = (text: string): ComponentChildren =>
  text.trim() ? (
    <span class="rest" title="Cut off: not analysed">
      {escapeBidi(text)}
    </span>
  ) : (
    text
  );

// The token an event is about; -1: none.
export function tokenAt(target: EventTarget | null): number {
  const token = target instanceof Element ? target.closest<HTMLElement>("[data-t]") : null;
  return token ? Number(token.dataset.t) : -1;
}
