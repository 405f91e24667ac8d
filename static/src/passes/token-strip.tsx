// The text in small, its tokens coloured by a number each; one of them can be chosen.
import { useLayoutEffect, useRef } from "preact/hooks";
import { scrollTo } from "../app/dom";
import { rowTexts } from "../app/stacks";
import type { Axis } from "../maps/analysis";
import { tinted, type Lut } from "../maps/colour";
import { format } from "../maps/scale";
import { useApp } from "../ui/context";
import { TextFlow, tokenAt, type TokenLook } from "../ui/text-flow";

const FAINT = 0.02; // fractions below it are not coloured

export interface TokenTint {
  values: readonly number[]; // one an entry of the axis
  lut: Lut;
  top: number; // full colour
  label: string;
}

export function TokenStrip(props: {
  label: string;
  axis: Axis;
  chosen: readonly number[];
  tint: TokenTint | null;
  onChoose: (entry: number) => void;
}) {
  const app = useApp();
  const { label, axis, chosen, tint } = props;
  const strip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const held = strip.current?.querySelector(".held");
    if (strip.current && held) scrollTo(strip.current, held);
  }, [axis, chosen[0]]);
  const lookOf = (t: number): TokenLook => {
    const fraction = tint && tint.top > 0 ? (tint.values[t] ?? 0) / tint.top : 0;
    return {
      class: chosen.includes(t) ? "held" : "",
      style: tint && fraction > FAINT ? tinted(tint.lut, fraction) : {},
      chosen: chosen.includes(t),
    };
  };
  const point = (t: number, aloud: boolean): void => {
    const amount = tint ? `   ${tint.label} ${format(tint.values[t])}` : "";
    app.announce(t < 0 ? "" : `${axis.labels[t]} ${axis.positions[t]}${amount}`, aloud);
  };
  const choose = (t: number): void => {
    if (t >= 0) props.onChoose(t);
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    if (e.key !== " " && e.key !== "Enter") return;
    choose(tokenAt(document.activeElement));
    e.preventDefault();
  };
  return (
    <div
      class="token-strip"
      ref={strip}
      onClick={(e) => choose(tokenAt(e.target))}
      onKeyDown={onKeyDown}
      onPointerOver={(e) => point(tokenAt(e.target), false)}
      onPointerLeave={() => point(-1, false)}
      onFocusCapture={(e) => point(tokenAt(e.target), true)}
    >
      <TextFlow axis={axis} texts={rowTexts(app.state)} label={label} lookOf={lookOf} />
    </div>
  );
}
