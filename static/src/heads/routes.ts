// The strongest routes from the tokens of the text, through the layers, to one token's last state.
//
// A route goes up one layer at a time. It stays at its token, or one head takes it to another token. In a decoder it may also
// begin at a token of the text that the encoder reads, as a cross head takes it to one of the target. Its strength is the
// product of the fractions that it keeps at each step. The search is exact: best first, with the largest strength that
// a state can still reach as the bound (A*, Hart et al. 1968).

// One layer's fractions. Keeps the head that hands on most between two tokens. The T tokens of the layer are followed by
// the U tokens that its cross heads attend to, 0 without those.
export interface LayerHops {
  stay: Float32Array; // [T]
  share: Float32Array; // [T to][T + U from], 0 on the diagonal
  head: Uint16Array; // the same
}

export interface Hop {
  layer: number;
  head: number;
  from: number; // from T on: a token that a cross head attends to
  to: number;
}

export interface Route {
  strength: number;
  hops: readonly Hop[]; // the lowest first
}

// A partial route, from the top down to token t below layer `layer`.
interface State {
  layer: number;
  t: number;
  kept: number; // product of the fractions so far
  bound: number; // largest strength of a whole route
  hop: Hop | null; // the last step
  above: State | null;
}

// Tokens of each row of fractions.
const strideOf = ({ stay, share }: LayerHops): number => share.length / stay.length;

// reach[l][t]: the largest product of fractions on any way from the text to token t below layer l.
function reachOf(layers: readonly LayerHops[]): Float64Array[] {
  const [first] = layers;
  const stride = first ? strideOf(first) : 0;
  const reach = [new Float64Array(stride).fill(1)];
  for (const { stay, share } of layers) {
    const below = reach.at(-1)!;
    reach.push(
      Float64Array.from(below, (own, to) => {
        if (to >= stay.length) return own;
        let most = stay[to]! * own;
        for (let from = 0; from < stride; from++) most = Math.max(most, share[to * stride + from]! * below[from]!);
        return most;
      }),
    );
  }
  return reach;
}

// The states one step further down that can be on one of the `count` strongest routes through this one.
function stepsDown(state: State, { stay, share, head }: LayerHops, reach: Float64Array, count: number): State[] {
  const { t, kept } = state;
  const [layer, stride] = [state.layer - 1, reach.length];
  const step = (from: number, fraction: number, hop: Hop | null): State => ({
    layer,
    t: from,
    kept: kept * fraction,
    bound: kept * fraction * reach[from]!,
    hop,
    above: state,
  });
  if (t >= stay.length) return [step(t, 1, null)]; // of the encoder's last states in every layer
  const hops = [...share.subarray(t * stride, (t + 1) * stride)]
    .map((fraction, from) => ({ fraction, from, bound: fraction * reach[from]! }))
    .filter(({ bound }) => bound > 0)
    .sort((a, b) => b.bound - a.bound)
    .slice(0, count);
  return [
    step(t, stay[t]!, null),
    ...hops.map(({ fraction, from }) => step(from, fraction, { layer, head: head[t * stride + from]!, from, to: t })),
  ];
}

function hopsOf(state: State): Hop[] {
  const hops: Hop[] = [];
  for (let at: State | null = state; at; at = at.above) if (at.hop) hops.push(at.hop);
  return hops;
}

// At most `count` routes with at least one hop, the strongest first.
export function strongestRoutes(layers: readonly LayerHops[], target: number, count: number): Route[] {
  const reach = reachOf(layers);
  const open: State[] = [
    { layer: layers.length, t: target, kept: 1, bound: reach[layers.length]![target]!, hop: null, above: null },
  ];
  const routes: Route[] = [];
  while (routes.length < count) {
    const state = open.pop(); // of the largest bound
    if (!state) break;
    if (state.layer === 0) {
      const hops = hopsOf(state);
      if (hops.length) routes.push({ strength: state.kept, hops });
      continue;
    }
    open.push(...stepsDown(state, layers[state.layer - 1]!, reach[state.layer - 1]!, count));
    open.sort((a, b) => a.bound - b.bound);
    open.splice(0, Math.max(0, open.length - 2 * count));
  }
  return routes;
}
