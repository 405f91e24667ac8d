// The lens of many tokens: a row a token, a column a layer, each cell the likeliest token there, tinted by entropy. The five
// likeliest of the cell under the pointer or the focus stand beside.
import { useMemo, useRef, useState } from "preact/hooks";
import type { JsonAnswer } from "../../app/answer";
import { escapeBidi } from "../../app/bidi";
import type { Axis } from "../../maps/analysis";
import { lutOf, tinted } from "../../maps/colour";
import { ColourBar } from "../../maps/colour-bar";
import { linearBar, placesUpTo } from "../../maps/linear";
import { format, percent } from "../../maps/scale";
import { moveFocus } from "../../ui/arrows";
import { useApp } from "../../ui/context";
import { LevelColumns, levelName } from "../../ui/levels";
import { LikeliestTokens } from "../../ui/likeliest";
import { LENS_TOP } from "./lens-table";

export const LENS_ROWS = 64; // tokens shown at once

interface Cell {
  position: number;
  level: number; // 0: the embeddings
}

const readingAt = (side: JsonAnswer | null, { position, level }: Cell) =>
  side?.predictions?.find((one) => one.position === position)?.layers?.[level] ?? null;

// `after`: null if nothing is changed. Both answer for the same positions.
export function LensGrid(props: {
  axis: Axis;
  before: JsonAnswer;
  after: JsonAnswer | null;
  side: "before" | "after";
}) {
  const app = useApp();
  const { axis, before, after, side } = props;
  const { map } = app.state;
  const shown = (side === "after" && after) || before;
  const predictions = shown.predictions ?? [];
  const first: Cell = { position: predictions[0]?.position ?? 0, level: 0 };
  const [cell, setCell] = useState(first);
  const grid = useRef<HTMLTableElement>(null);
  const levels = predictions[0]?.layers?.length ?? 0;
  const top = Math.max(0, ...predictions.flatMap(({ layers = [] }) => layers.map(({ entropy }) => entropy ?? 0)));
  const lut = lutOf(map, "figure", app.theme);
  const place = placesUpTo(top);
  const at = predictions.some(({ position }) => position === cell.position) && cell.level < levels ? cell : first;
  const announce = (next: Cell, aloud: boolean): void => {
    setCell(next);
    const reading = readingAt(shown, next);
    const best = (reading?.top ?? []).map(({ token, probability }) => `${escapeBidi(token)} ${percent(probability)}`);
    const place = `${axis.labels[next.position]} ${next.position}, after ${levelName(next.level)}`;
    app.announce(`${place}   ${best.join("  ")}   entropy ${format(reading?.entropy)}`, aloud);
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    moveFocus(e, [...(grid.current?.querySelectorAll<HTMLElement>("[data-at]") ?? [])], levels);
  };
  // The same tree as long as its cells are: a pointer that moves draws only what stands beside.
  const body = useMemo(
    () =>
      predictions.map(({ position, layers = [] }) => (
        <tr key={position}>
          <th scope="row">
            {axis.labels[position]} <small>{position}</small>
          </th>
          {layers.map(({ top: [best], entropy }, level) => {
            const other = after && readingAt(before, { position, level })?.top[0]?.id;
            const moved = side === "after" && other !== null && other !== best?.id;
            return (
              <td
                key={level}
                class={moved ? "moved" : ""}
                data-at={`${position}.${level}`}
                tabIndex={position === at.position && level === at.level ? 0 : -1}
                style={tinted(lut, place(entropy ?? 0))}
              >
                {escapeBidi(best?.token ?? "")}
              </td>
            );
          })}
        </tr>
      )),
    [before, after, side, lut, top, axis, at.position, at.level],
  );
  const cellOf = (target: EventTarget | null): Cell | null => {
    const text = target instanceof Element ? target.closest<HTMLElement>("[data-at]")?.dataset.at : undefined;
    const [position, level] = (text ?? "").split(".").map(Number);
    return text && position !== undefined && level !== undefined ? { position, level } : null;
  };
  const see = (e: Event, aloud: boolean): void => {
    const next = cellOf(e.target);
    if (next && (next.position !== at.position || next.level !== at.level || aloud)) announce(next, aloud);
  };
  return (
    <div class="lens-grid">
      <ColourBar {...linearBar("Entropy", lut, top)} />
      <div class="lens-body">
        <div class="scroll">
          <table
            ref={grid}
            onPointerOver={(e) => see(e, false)}
            onFocusCapture={(e) => see(e, true)}
            onKeyDown={onKeyDown}
          >
            <caption>
              The likeliest token after each layer
              {side === "after" && after ? ", after the change; framed: another one than before" : ""}
            </caption>
            <LevelColumns levels={levels} />
            <tbody>{body}</tbody>
          </table>
        </div>
        <CellCard axis={axis} cell={at} before={before} after={after} />
      </div>
    </div>
  );
}

const NOTHING = { top: [] };

function CellCard(props: { axis: Axis; cell: Cell; before: JsonAnswer; after: JsonAnswer | null }) {
  const { axis, cell, before, after } = props;
  const [was, is] = [readingAt(before, cell), readingAt(after, cell)];
  const name = `${axis.labels[cell.position]} ${cell.position} after ${levelName(cell.level)}`;
  return (
    <section class="card">
      <h3>{name}</h3>
      <p class="muted">
        Entropy {format(was?.entropy)}
        {is && ` → ${format(is.entropy)}`} nats
      </p>
      <LikeliestTokens caption={`Lens: ${name}`} before={was ?? NOTHING} after={is} listed={LENS_TOP} />
    </section>
  );
}
