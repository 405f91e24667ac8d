// The text with its tokens as elements in place: white space included, special tokens as chips, the cut end in grey.
import type { ComponentChildren, CSSProperties } from "preact";
import { directionOf, escapeBidi } from "../app/bidi";
import { SPACE } from "../app/token-labels";
import type { Axis } from "../maps/analysis";
import { classes } from "./classes";

export interface TokenLook {
  class?: string;
  style?: CSSProperties;
  chosen?: boolean; // of a listbox
  note?: string; // under the token
  title?: string;
}

const WRITTEN = "Written by the model";

// Offsets count code points; strings count UTF-16 units. Returns the unit at which each code point begins.
export function unitsOf(text: string): Uint32Array {
  const starts: number[] = [];
  for (let at = 0; at < text.length; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) starts.push(at);
  starts.push(text.length);
  return Uint32Array.from(starts);
}

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
  const token = (t: number, words: string) => {
    const { class: own, style, chosen, note, title } = props.lookOf(t);
    const listbox = { role: "option", "aria-selected": chosen, tabIndex: t ? -1 : 0 } as const;
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
        {...(label ? listbox : {})}
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
  };
  return (
    <div
      class="flow"
      role={label ? "listbox" : undefined}
      aria-label={label}
      aria-multiselectable={label ? props.multiple : undefined}
    >
      {texts.map((source, type) => {
        const parts = partsOf(axis, source, type, token);
        return (
          (source || parts.length > 0) && (
            <p
              key={type}
              role={label ? "group" : undefined}
              aria-label={names?.[type]}
              dir={directionOf(source || axis.labels.join(" "))}
            >
              {names && <small class="text-name">{names[type]}</small>}
              <span class="lines">{parts}</span>
            </p>
          )
        );
      })}
    </div>
  );
}

// A segment's tokens, with the text between them and what was cut off.
function partsOf(
  axis: Axis,
  source: string,
  type: number,
  token: (t: number, words: string) => ComponentChildren,
): ComponentChildren[] {
  const of = Array.from({ length: axis.n }, (_, t) => t).filter((t) => axis.types[t] === type);
  if (of.some((t) => (axis.offsets[t]?.[0] ?? 0) < 0)) return spelledOf(axis, of, token);
  const units = unitsOf(source);
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const t of of) {
    const [first, last] = axis.offsets[t] ?? [0, 0];
    const special = axis.special[t];
    const [from, to] = special ? [at, at] : [units[first] ?? source.length, units[last] ?? source.length];
    if (from > at) parts.push(at === 0 ? restOf(source.slice(0, from)) : escapeBidi(source.slice(at, from)));
    const words = special || to <= from ? axis.labels[t] : escapeBidi(source.slice(Math.max(from, at), to));
    parts.push(token(t, words ?? ""));
    if (!special && to <= from) parts.push(" "); // a prompt's tokens have no text around them
    at = Math.max(at, to);
  }
  if (at < source.length) parts.push(restOf(source.slice(at)));
  return parts;
}

// A text without offsets, as one that the model wrote: its tokens, with the spaces that they name. Where none names any,
// as in WordPiece, each word has one before it.
function spelledOf(
  axis: Axis,
  of: readonly number[],
  token: (t: number, words: string) => ComponentChildren,
): ComponentChildren[] {
  const labels = of.map((t) => axis.labels[t] ?? "");
  const named = labels.some((label) => label.startsWith(SPACE));
  return labels.flatMap((label, k) => {
    const t = of[k] ?? 0;
    const apart = axis.special[t] || (named ? label.startsWith(SPACE) : !label.startsWith("##"));
    const words = named ? label.slice(label.startsWith(SPACE) ? 1 : 0) : label.replace(/^##/, "");
    return [...(apart && k ? [" "] : []), token(t, words || label)];
  });
}

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

// The elements of the tokens, by their entry.
export function tokensIn(place: ParentNode): HTMLElement[] {
  const tokens: HTMLElement[] = [];
  for (const token of place.querySelectorAll<HTMLElement>("[data-t]")) tokens[Number(token.dataset.t)] = token;
  return tokens;
}
