// The lists beside the text: the tokens most related to the chosen ones, and the layer's segments.
import type { Axis, Segment } from "../../maps/analysis";
import { hasSimilarities } from "../../app/sources";
import { isCross } from "../../app/stacks";
import { format } from "../../maps/scale";
import type { Attribution } from "../../passes/attribution";
import { classes } from "../../ui/classes";
import { useApp } from "../../ui/context";
import { Button } from "../../ui/controls";
import { Columns } from "../../ui/table";
import { ABOUT, relationOf, type Rows } from "./rows";
import { RELATIONS, type Relation } from "./state";

const LISTED = 8;

interface Events {
  onChoose: (t: number) => void;
  onPoint: (t: number) => void; // -1: at none any more
}

export function TextLists(
  props: Events & {
    rows: Rows;
    chosen: readonly number[];
    segments: readonly Segment[];
    attribution: Attribution | null;
  },
) {
  const { rows, chosen, segments, attribution, ...events } = props;
  const { axis } = rows;
  const { state } = useApp();
  // The chosen tokens of a cross head either attend or are attended to.
  const relations = isCross(state)
    ? [state.relation]
    : RELATIONS.filter((relation) => relation !== "similar" || hasSimilarities(state));
  return (
    <div class="lists">
      {attribution && <AttributedTokens axis={axis} values={attribution.values} {...events} />}
      {chosen.length ? (
        relations.map((relation) => <RelatedTokens key={relation} {...{ rows, chosen, relation, ...events }} />)
      ) : (
        <NoneChosen />
      )}
      {segments.length > 0 && <Segments axis={axis} segments={segments} />}
    </div>
  );
}

const NoneChosen = () => (
  <section class="card">
    <h2>No token chosen</h2>
    <p class="muted">
      Click a token; Shift and click adds another, as does “Choose several”.{" "}
      {isCross(useApp().state)
        ? "For a token of the target, those of the text that it attends to are then listed here; for one of the text, those of the target that attend to it."
        : "The tokens it attends to, those that attend to it and those it is similar to are then listed here. With two, all heads are ranked by their attention or similarity between them."}
    </p>
  </section>
);

function RelatedTokens(props: Events & { rows: Rows; chosen: readonly number[]; relation: Relation }) {
  const app = useApp();
  const { rows, chosen, relation, ...events } = props;
  const { title, quantity } = ABOUT[relation];
  const values = relationOf(rows, chosen, relation);
  if (!values)
    return relation === app.state.relation ? null : (
      <section class="card">
        <h2>{title}</h2>
        <p class="muted">Takes another pass.</p>
        <Button onClick={() => app.set({ relation })}>Fetch “{title}”</Button>
      </section>
    );
  const listed = Array.from(values, (value, t) => ({ t, value, size: Math.max(0, value) }))
    .filter(({ t }) => !chosen.includes(t))
    .sort((a, b) => b.value - a.value)
    .slice(0, LISTED);
  return <TokenList {...{ axis: rows.axis, title, quantity, listed, ...events }} />;
}

// The tokens that bring most, up or down.
function AttributedTokens({ axis, values, ...events }: Events & { axis: Axis; values: Float64Array }) {
  const listed = Array.from(values, (value, t) => ({ t, value, size: Math.abs(value) }))
    .sort((a, b) => b.size - a.size)
    .slice(0, LISTED);
  return <TokenList {...{ axis, title: "Attribution", listed }} {...events} />;
}

// `listed`: the largest in size first.
function TokenList(
  props: Events & {
    axis: Axis;
    title: string;
    quantity?: "attention" | "similarity";
    listed: readonly { t: number; value: number; size: number }[];
  },
) {
  const { axis, listed } = props;
  const top = listed[0]?.size ?? 0;
  return (
    <section class={classes("card", props.quantity)} aria-label={props.title}>
      <h2>{props.title}</h2>
      <ol>
        {listed.map(({ t, value, size }) => (
          <li key={t}>
            <Button
              onClick={() => props.onChoose(t)}
              onPointerEnter={() => props.onPoint(t)}
              onPointerLeave={() => props.onPoint(-1)}
            >
              <span>{axis.labels[t]}</span>
              <small>{axis.positions[t]}</small>
              <b>{format(value)}</b>
              <i style={{ width: `${top > 0 ? (size / top) * 100 : 0}%` }} />
            </Button>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Segments({ axis, segments }: { axis: Axis; segments: readonly Segment[] }) {
  const words = ({ start, end }: Segment): string => {
    const labels = axis.labels.slice(start, end);
    return labels.length > 6 ? `${labels.slice(0, 3).join(" ")} … ${labels.slice(-2).join(" ")}` : labels.join(" ");
  };
  return (
    <section class="card">
      <h2>Segments of the layer</h2>
      <table class="segments">
        <Columns of={["Tokens", "Cohesion", "To the rest"]} number={(column) => column > 0} />
        <tbody>
          {segments.map((segment) => (
            <tr key={segment.start}>
              <td>{words(segment)}</td>
              <td class="number">{format(segment.cohesion)}</td>
              <td class="number">{format(segment.contrast)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
