// The text with its tokens as elements in place: white space included, special tokens as chips, the cut end in grey.
import type { ComponentChildren, CSSProperties } from "preact";
import { directionOf, escapeBidi } from "../app/bidi";
import type { Axis } from "../maps/analysis";
import { classes } from "./classes";
import { spansOf, type Span } from "./text-spans";

export interface TokenLook {
  class?: string;
  style?: CSSProperties;
  chosen?: boolean; // of a listbox
  note?: string; // under the token
  title?: string;
}

const WRITTEN = "Written by the model";

// With a label it is a listbox with one stop for the Tab key.
export function TextFlow(props: {
  axis: Axis;
  texts: readonly string[]; // by token type
  names?: readonly string[]; // of the texts, above each
  label?: string;
  multiple?: boolean;
  lookOf: (t: number) => TokenLook;
}) {
  const { axis, texts, names, label } = props;
  return (
    <div
      class="flow"
      role={label ? "listbox" : undefined}
      aria-label={label}
      aria-multiselectable={label ? props.multiple : undefined}
    >
      {texts.map((source, type) => {
        const { spans, rest } = spansOf(axis, source, type);
        return (
          (source || spans.length > 0) && (
            <p
              key={type}
              role={label ? "group" : undefined}
              aria-label={names?.[type]}
              dir={directionOf(source || axis.labels.join(" "))}
            >
              {names && <small class="text-name">{names[type]}</small>}
              <span class="lines">
                {spans.flatMap((span) => [
                  ...gapOf(span),
                  tokenOf(axis, span, props.lookOf(span.t), label ? { stop: span.t === 0 } : undefined),
                ])}
                {restOf(rest)}
              </span>
            </p>
          )
        );
      })}
    </div>
  );
}

export interface OptionOf {
  stop: boolean; // the Tab key stops at it
  size?: number; // tokens of the listbox, if not all of them are elements
}

// One token, with `option` as one of a listbox.
export function tokenOf(axis: Axis, { t, words }: Span, look: TokenLook, option?: OptionOf): ComponentChildren {
  const { class: own, style, chosen, note, title } = look;
  const place = option?.size ? { "aria-posinset": t + 1, "aria-setsize": option.size } : {};
  const listbox = { role: "option", "aria-selected": chosen, tabIndex: option?.stop ? 0 : -1, ...place } as const;
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
      {...(option ? listbox : {})}
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
export const gapOf = ({ between, cut }: Span): ComponentChildren[] =>
  between ? [cut ? restOf(between) : escapeBidi(between)] : [];

// Text that was cut off is grey.
export const restOf = (text: string): ComponentChildren =>
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

// The elements of the tokens, by their entry.
export function tokensIn(place: ParentNode): HTMLElement[] {
  const tokens: HTMLElement[] = [];
  for (const token of place.querySelectorAll<HTMLElement>("[data-t]")) tokens[Number(token.dataset.t)] = token;
  return tokens;
}
