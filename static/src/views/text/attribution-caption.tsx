// Says what attributions are of, and what they miss.
import { format } from "../../maps/scale";
import { METHOD_ABOUT, type Attribution } from "../../passes/attribution";

const NO_LENGTH =
  ": this model’s word vectors probably go straight into a norm, so their length does not count. Take another method";

// `of`: null while the attributions are not here.
export function AttributionCaption({ of }: { of: Attribution | null }) {
  if (!of) return <p class="caption" />;
  const { method, top, words, gaps } = of;
  const { name, misses } = METHOD_ABOUT[method];
  const signs = method === "gradient" ? "" : " Above 0 a token raises it, below 0 it lowers it.";
  const none = top > 0 ? "" : ` All are 0 but for rounding${method === "gradient_x_input" ? NO_LENGTH : ""}.`;
  return (
    <p class="muted caption">
      {name} of each token, to {words}.{signs}
      {none} {gaps} {misses}
    </p>
  );
}

// One token’s attribution, to be read aloud.
export const saidOf = ({ values }: Attribution, t: number): string => `attribution ${format(values[t])}`;
