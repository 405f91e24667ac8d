// The view Trace, on the origin of a prediction or a class: the strongest routes through the layers, token to token.
// Shows the result with the heads of a route switched off.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { predictsNext, type Answer, type JsonAnswer } from "../../app/answer";
import type { App } from "../../app/app";
import { escapeBidi } from "../../app/bidi";
import { stackOf } from "../../app/stacks";
import type { Stack } from "../../app/state";
import { tokenAxisOf } from "../../maps/axis";
import { percent } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { madeOf } from "../../saving/provenance";
import { normsRequest } from "../../app/requests";
import { Button, Toggle } from "../../ui/controls";
import { StateSegmented, StateSelect } from "../../ui/state-controls";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { SecondText } from "../../ui/second-text";
import { useResize } from "../../ui/resize";
import { LayersProgress, Notice, StatusLine, statusOf } from "../../ui/status";
import { Toolbar } from "../../ui/toolbar";
import { inShort, taskOf } from "../../ui/task-result";
import { change, inWords, release, same, toggled, type Edit } from "../../passes/interventions";
import { editsWithin, mostOf, placeOf, TaskChange, useOutcome, type Outcome } from "../../passes/outcome";
import { PredictionCards } from "../../passes/prediction-card";
import { targetOf, type Target } from "../../passes/target";
import { TokenStrip } from "../../passes/token-strip";
import { layersOf } from "./layers";
import { PatchMaps, PatchNote, patchingOf } from "./patching";
import { drawingOf, idleLayers, type Drawing } from "./picture";
import { strongestRoutes, type Hop, type Route } from "../../heads/routes";
import { ROUTES_MOST } from "./state";

const COUNTS = [4, 8, 16, ROUTES_MOST];
const MASK = /^[[<]\|?mask\|?[\]>]$/i;

export function TraceView() {
  const app = useApp();
  const entry = app.overview();
  const task = taskOf(app);
  const { answer } = entry;
  return (
    <section class="view trace" aria-label="Trace">
      <Controls answer={answer} />
      {statusOf(app, entry)}
      {answer && statusOf(app, task)}
      {answer && (!task || task.answer) && <Body answer={answer} task={task?.answer ?? null} />}
    </section>
  );
}

// All layers of a short text fit a window.
const [TOKENS_FIT, LAYERS_FIT] = [32, 12];

const isFolded = ({ state: { fold } }: App, { layers, encoding }: Answer): boolean =>
  fold === "auto" ? encoding.ids.length > TOKENS_FIT || layers.length > LAYERS_FIT : fold === "on";

function Controls({ answer }: { answer: Answer | null }) {
  const app = useApp();
  const { routes } = app.state;
  return (
    <Toolbar terms={["route", "patching"]}>
      <StateSegmented field="weight" also={{ route: -1 }} step />
      <StateSelect
        label="Routes"
        field="routes"
        also={{ route: -1 }}
        options={[...new Set([...COUNTS, routes])].sort((a, b) => a - b).map((n) => [n, `the ${n} strongest`])}
      />
      {answer && (
        <Toggle
          label="Fold layers"
          title="Draws layers low in which the strongest route, and the chosen one, stay at their token"
          on={isFolded(app, answer)}
          onChange={(on) => app.set({ fold: on ? "on" : "off" })}
        />
      )}
    </Toolbar>
  );
}

// The token whose last state the result is read from.
function positionOf({ state }: App, { encoding }: Answer, task: JsonAnswer | null, target: Target | null): number {
  const request = target?.request as { position?: number; span?: [number, number] } | undefined;
  const last = Math.max(0, encoding.special.lastIndexOf(false));
  if (task?.classes && request?.position === undefined) return encoding.causal ? last : 0;
  if (request?.position !== undefined) return request.position;
  if (request?.span) return request.span[0];
  if (state.at >= 0 && state.at < encoding.ids.length) return state.at;
  const masked = encoding.tokens.findIndex((token) => MASK.test(token));
  return masked >= 0 ? masked : last;
}

// The model's answer there, in a few words.
function resultOf(outcome: Outcome | null, task: JsonAnswer | null): string {
  const said = task && !task.loss ? inShort(task) : "";
  const [best] = outcome?.before.predictions?.[0]?.top ?? [];
  return said || (best ? `${escapeBidi(best.token)} ${percent(best.probability)}` : "");
}

const NONE: ReadonlySet<number> = new Set(); // no layers
const SPACE = 640; // CSS px of the picture before it is laid out

function Body({ answer, task }: { answer: Answer; task: JsonAnswer | null }) {
  const app = useApp();
  const { state } = app;
  const edits = editsWithin(app, answer);
  const chosen = state.at < answer.encoding.ids.length ? state.at : -1;
  const target = predictsNext(answer) && !task?.classes ? null : targetOf(answer, task, chosen, state.watched);
  const at = positionOf(app, answer, task, target);
  const most = mostOf(app);
  const { outcome, waiting } = useOutcome(edits, at);
  const sought = patchingOf(app, answer, at, target);
  const patching = sought && "patch" in sought ? sought : null;
  const layers = !sought || patching ? layersOf(app, answer, most ? at : null, target, patching) : null;
  const hops = layers?.hops ?? null;
  const routes = useMemo(() => hops && strongestRoutes(hops, at, state.routes), [hops?.at(-1), at, state.routes]);
  const axis = tokenAxisOf(answer.encoding);
  const source = layers?.source ?? null;
  const labels = useMemo(() => [...axis.labels, ...(source ? tokenAxisOf(source).labels : [])], [axis, source]);
  const words = resultOf(outcome, task);
  const crossing: Crossing = { T: axis.n, labels, source, stack: stackOf(state) };
  const isOff = (hop: Hop): boolean => edits.some((edit) => same(edit, headOf(hop, crossing)));
  const frame = useRef<HTMLDivElement>(null);
  useResize(frame, app.draw, [app, routes !== null]);
  const n = answer.layers.length;
  const folded = routes && isFolded(app, answer) ? idleLayers(routes, state.route, n) : NONE;
  const drawing = routes && drawingOf(routes, { layers: n, folded, target: at, T: axis.n, labels, words, space: frame.current?.clientWidth || SPACE }, state.route, isOff); // prettier-ignore
  useExport(() => drawing && routes && exportOf(app, answer, routes, crossing));
  return (
    <>
      {sought && (
        <SecondText
          label={
            crossing.stack === "encoder"
              ? "Second text: as many tokens, another result"
              : "Second text for the encoder: of any length, with the same target"
          }
          action="Trace"
          help="patching"
        />
      )}
      <TokenStrip
        label={
          crossing.stack !== "encoder"
            ? "Target: choose the token to predict after"
            : answer.encoding.causal
              ? "Tokens: choose the one to predict after"
              : "Tokens: choose the one to trace"
        }
        axis={axis}
        chosen={[at]}
        tint={null}
        onChoose={app.trace}
      />
      {sought && "refusal" in sought && <Notice>{sought.refusal}</Notice>}
      {sought && "waiting" in sought && statusOf(app, sought.waiting)}
      {patching && <PatchNote of={patching} />}
      {patching && routes?.length === 0 && (
        <Notice>Both texts give the same result here, so there is nothing to restore.</Notice>
      )}
      <div class="trace-body">
        {routes && drawing ? (
          <RoutePicture frame={frame} routes={routes} drawing={drawing} place={placeOf(answer, at)} />
        ) : (
          layers && (
            <LayersProgress
              words={layers.ofEffects ? "Heads changed one by one" : "Norms of what heads hand on"}
              done={layers.done}
              of={layers.of}
              next={layers.waiting}
            />
          )
        )}
        <div class="trace-side">
          {statusOf(app, waiting, true)}
          <TaskChange answer={answer} edits={edits} />
          <PredictionCards answer={answer} outcome={outcome} most={1} />
          {routes && <RouteList routes={routes} of={crossing} edits={edits} />}
        </div>
      </div>
      {patching && <PatchMaps of={patching} axis={axis} source={source && tokenAxisOf(source)} />}
      <p class="muted caption">
        Upwards: layers. A curve is a head that hands on what one token holds to another; its width is the strength of
        the routes through it. A route’s strength is the product of the fractions that it keeps; feed-forward parts act
        within a token and are left out.
        {folded.size > 0 &&
          " Shaded layers are folded: the strongest route, and the chosen one, stay at their token there."}
        {crossing.stack !== "encoder" &&
          " Curves from the text to the target are cross heads, those within the target the decoder’s own. The text’s tokens stand for the encoder’s last states, in which its heads have mixed them: choose the heads of the encoder to follow routes there."}
      </p>
    </>
  );
}

function RoutePicture(props: {
  routes: readonly Route[];
  drawing: Drawing;
  place: string;
  frame: { current: HTMLDivElement | null };
}) {
  const { routes, drawing, place, frame } = props;
  const app = useApp();
  const { root } = drawing;
  root.setAttribute("aria-hidden", "true"); // the list beside says the same
  root.querySelectorAll<SVGPathElement>("path").forEach((path, n) => {
    const hop = drawing.hops[n];
    const route = hop ? routes.findIndex(({ hops }) => hops.some((one) => isSame(one, hop))) : -1;
    if (route >= 0) path.addEventListener("click", () => app.set({ route }));
  });
  useLayoutEffect(() => frame.current?.replaceChildren(root));
  return (
    <div class="routes" tabIndex={0} role="group" aria-label={`Routes to the result ${place.replace(/^A/, "a")}`}>
      <div ref={frame} />
    </div>
  );
}

const isSame = (a: Hop, b: Hop): boolean =>
  a.layer === b.layer && a.head === b.head && a.from === b.from && a.to === b.to;

// The tokens of routes: T of the layers, then those of the text that cross heads attend to.
interface Crossing {
  T: number;
  labels: readonly string[];
  source: Answer["source"];
  stack: Stack; // the chosen one
}

const isAcross = ({ from }: Hop, { T }: Crossing): boolean => from >= T;
const stackOfHop = (hop: Hop, of: Crossing): Stack =>
  of.stack === "encoder" ? of.stack : isAcross(hop, of) ? "cross" : "decoder";

function headOf(hop: Hop, of: Crossing): Pick<Edit, "layer" | "head" | "stack"> {
  const [{ layer, head }, stack] = [hop, stackOfHop(hop, of)];
  return stack === of.stack ? { layer, head } : { layer, head, stack };
}

// Every route in words, with a switch for its heads.
function RouteList(props: { routes: readonly Route[]; of: Crossing; edits: readonly Edit[] }) {
  const app = useApp();
  const { routes, of, edits } = props;
  const most = routes[0]?.strength ?? 1;
  return (
    <section class="card route-list">
      <h2>Routes, relative to the strongest</h2>
      <StatusLine>
        {edits.length ? (
          `${inWords(edits)}.`
        ) : (
          <span class="how">Switch a route’s heads off to see what the model says without it.</span>
        )}
        {edits.length > 0 && (
          <Button class="link" onClick={() => release(app)}>
            Release all
          </Button>
        )}
      </StatusLine>
      <ol>
        {routes.map((route, n) => {
          const off = route.hops.every((hop) => edits.some((edit) => same(edit, headOf(hop, of))));
          const name = wordsOf(route, of);
          return (
            <li key={n}>
              <Button
                class="route"
                aria-pressed={app.state.route === n}
                onClick={() => app.set({ route: app.state.route === n ? -1 : n })}
              >
                <span>{name}</span> <b>{percent(route.strength / most)}</b>
              </Button>
              <Button
                class="flip"
                aria-pressed={off}
                aria-label={`${off ? "Switch on" : "Switch off"} the heads of route ${n + 1}`}
                title={off ? "Switch its heads on" : "Switch its heads off"}
                onClick={() => change(app, switched(edits, route, of, off))}
              >
                <span aria-hidden="true">{off ? "↺" : "×"}</span>
              </Button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

// "old 3 → [MASK] 5 by 3·7", "text old 3 → target alte 2 by cross 3·7"
const wordsOf = ({ hops }: Route, of: Crossing): string =>
  hops
    .map((hop) => {
      const { layer, head, from, to } = hop;
      const { T, labels, stack } = of;
      const across = isAcross(hop, of);
      const [text, target, heads] = stack === "encoder" ? ["", "", ""] : across ? ["text ", "target ", "cross "] : ["target ", "", "decoder "]; // prettier-ignore
      return `${text}${labels[from]} ${across ? from - T : from} → ${target}${labels[to]} ${to} by ${heads}${layer}·${head}`;
    })
    .join(", ");

function switched(edits: readonly Edit[], { hops }: Route, of: Crossing, off: boolean): readonly Edit[] {
  return hops.reduce((all: readonly Edit[], hop) => {
    const there = all.find((edit) => same(edit, headOf(hop, of)));
    if (off) return there ? toggled(all, there) : all;
    return there ? all : toggled(all, { kind: "zero", ...headOf(hop, of), factor: 0 });
  }, edits);
}

function exportOf(app: App, answer: Answer, routes: readonly Route[], of: Crossing): Exportable {
  const made = madeOf(app, answer, "trace", normsRequest(app.state, answer.layers));
  return {
    ...made,
    part: ".routes",
    rows: () => [
      [
        ...["route", "strength", "layer", "head", "from", "from_token", "to", "to_token"],
        ...(of.source ? ["heads"] : []),
      ],
      ...routes.flatMap(({ strength, hops }, n) =>
        hops.map((hop) => {
          const { layer, head, from, to } = hop;
          const at = isAcross(hop, of) ? from - of.T : from;
          return [
            ...[n + 1, strength, layer, head, at, of.labels[from] ?? "", to, of.labels[to] ?? ""],
            ...(of.source ? [stackOfHop(hop, of)] : []),
          ];
        }),
      ),
    ],
  };
}
