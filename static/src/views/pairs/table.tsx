// The pairs as a table of which only the visible rows exist. Arrows move through it, Enter shows the pair on the map.
import { useMemo, useRef, useState } from "preact/hooks";
import { perFrame } from "../../app/frame";
import type { Axis } from "../../maps/analysis";
import { distanceOf, sameSentence, sameToken, type Pairs } from "../../maps/pairs";
import { format } from "../../maps/scale";
import { useResize } from "../../ui/resize";
import { ColumnHead } from "../../ui/sortable";

const ROW = 28; // CSS px, as in the style sheet
const AROUND = 6; // rows above and below the visible ones

interface Column {
  key: string;
  name: string;
  title: string;
  kind: "text" | "number" | "mark";
  words?: boolean; // sorts from the smallest up at first
  fixed?: boolean; // does not sort
}
const COLUMNS: readonly Column[] = [
  { key: "token_i", name: "Token i", title: "First token", kind: "text", words: true },
  { key: "token_j", name: "Token j", title: "Second token", kind: "text", words: true },
  { key: "i", name: "i", title: "Position of the first", kind: "number", words: true },
  { key: "j", name: "j", title: "Position of the second", kind: "number", words: true },
  { key: "similarity", name: "S", title: "Similarity", kind: "number", fixed: true },
  { key: "normalized", name: "N", title: "Similarity as a fraction of the head’s largest", kind: "number" },
  { key: "distance", name: "Dist.", title: "Distance in tokens", kind: "number" },
  { key: "same_token", name: "Same", title: "The same token twice", kind: "mark" },
  { key: "same_sentence", name: "Sent.", title: "Within one sentence", kind: "mark" },
];

export interface Listed {
  axis: Axis;
  pairs: Pairs;
  similarityOf: (k: number) => number | undefined; // of a pair, by its index
  order: Uint32Array; // indices into pairs
}

// The entries of a pair on the axis.
export const entriesOf = ({ i, j }: Pairs, k: number): readonly [number, number] => [i[k] ?? 0, j[k] ?? 0];

export function PairTable(props: {
  of: Listed;
  caption: string;
  sorted: string;
  pinned: number; // index into the order; -1: none
  onSort: (order: string) => void;
  onPin: (n: number) => void;
  onOpen: () => void;
}) {
  const { order } = props.of;
  const scroller = useRef<HTMLDivElement>(null);
  const [window, setWindow] = useState({ top: 0, height: innerHeight }); // measured after the first frame
  const measure = useMemo(
    () =>
      perFrame(() => {
        const { scrollTop = 0, clientHeight = 0 } = scroller.current ?? {};
        setWindow({ top: scrollTop, height: clientHeight });
      }),
    [],
  );
  useResize(scroller, measure);
  const first = Math.max(0, Math.min(order.length, Math.floor(window.top / ROW)) - AROUND);
  const last = Math.min(order.length, first + Math.ceil(window.height / ROW) + 2 * AROUND);

  const sort = (key: string): void => {
    props.onSort(key);
    if (scroller.current) scroller.current.scrollTop = 0;
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const { pinned } = props;
    if (e.key === "Enter" && pinned >= 0) return props.onOpen();
    const goal = {
      ArrowDown: pinned + 1,
      ArrowUp: pinned - 1,
      PageDown: pinned + 15,
      PageUp: pinned - 15,
      Home: 0,
      End: order.length - 1,
    }[e.key];
    if (goal === undefined || !order.length) return;
    e.preventDefault();
    const to = Math.min(order.length - 1, Math.max(0, goal));
    props.onPin(to);
    if (scroller.current) reveal(scroller.current, to * ROW);
  };
  return (
    <div class="table-side">
      <p class="count" role="status">
        {props.caption}
      </p>
      <div
        class="scroller"
        tabIndex={0}
        role="region"
        aria-label="Pairs; arrows move, Enter shows the pair"
        ref={scroller}
        onScroll={measure}
        onKeyDown={onKeyDown}
      >
        <table class="pairs sortable" aria-rowcount={order.length + 1}>
          <caption class="hidden">High-similarity pairs</caption>
          <thead>
            <tr>
              {COLUMNS.map((column) =>
                column.fixed ? (
                  <th key={column.key} scope="col" class={column.kind} title={column.title}>
                    {column.name}
                  </th>
                ) : (
                  <ColumnHead key={column.key} column={column} order={props.sorted} class={column.kind} onSort={sort} />
                ),
              )}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <Space key="above" rows={first} />}
            {Array.from({ length: Math.max(0, last - first) }, (_, n) => (
              <PairRow
                key={first + n}
                of={props.of}
                n={first + n}
                pinned={first + n === props.pinned}
                onPin={props.onPin}
              />
            ))}
            {last < order.length && <Space key="below" rows={order.length - last} />}
            {!order.length && (
              <tr>
                <td colSpan={COLUMNS.length} class="empty">
                  No pair passes. Lower the similarity threshold or widen the filters.
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </div>
  );
}

// Scrolls just enough for a row to be visible below the table's head.
function reveal(scroller: HTMLElement, top: number): void {
  const height = scroller.clientHeight - ROW * 2;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top > scroller.scrollTop + height) scroller.scrollTop = top - height;
}

const Space = ({ rows }: { rows: number }) => (
  <tr class="space" aria-hidden="true">
    <td colSpan={COLUMNS.length} style={{ height: `${rows * ROW}px` }} />
  </tr>
);

function PairRow(props: { of: Listed; n: number; pinned: boolean; onPin: (n: number) => void }) {
  const { axis, pairs, order } = props.of;
  const k = order[props.n] ?? 0;
  const [i, j] = entriesOf(pairs, k);
  const numbers = numbersOf(props.of, k);
  const mark = (is: boolean) => (
    <td class="mark">{is ? <span title="yes">●</span> : <span class="hidden">no</span>}</td>
  );
  return (
    <tr aria-rowindex={props.n + 2} class={props.pinned ? "held" : ""} onClick={() => props.onPin(props.n)}>
      <td>{axis.labels[i]}</td>
      <td>{axis.labels[j]}</td>
      {numbers.map((value, at) => (
        <td key={at} class="number">
          {value}
        </td>
      ))}
      {mark(sameToken(pairs, k, axis))}
      {mark(sameSentence(pairs, k, axis))}
    </tr>
  );
}

function numbersOf({ axis, pairs, similarityOf }: Listed, k: number): (string | number | undefined)[] {
  const [i, j] = entriesOf(pairs, k);
  return [
    axis.positions[i],
    axis.positions[j],
    format(similarityOf(k)),
    pairs.normalized[k]?.toFixed(3),
    distanceOf(pairs, k, axis),
  ];
}
