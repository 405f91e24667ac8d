// The choice of what the tokens are coloured by, and of the method of attributions; what attributions are of.
import { isFile } from "../../app/sources";
import type { State } from "../../app/state";
import { format } from "../../maps/scale";
import { METHOD_ABOUT, METHODS, type Attribution } from "../../passes/attribution";
import { useApp } from "../../ui/context";
import { Segmented } from "../../ui/controls";
import { StateSelect } from "../../ui/state-controls";
import type { Relation } from "./state";

const LOSS = {
  value: "loss",
  label: "Loss",
  title: "How unexpected each token is, given those before it",
} as const;
const ATTRIBUTION = {
  value: "attribution",
  label: "Attribution",
  title: "Each token’s contribution to the result of the model, by a gradient",
} as const;

// `also`: what a relation sets beside itself.
export function ColourBy(props: {
  relations: readonly { value: Relation; label: string }[];
  losses?: boolean;
  also?: Partial<State>;
}) {
  const app = useApp();
  const { relation, loss, attribution, model } = app.state;
  const { relations, losses = false, also = {} } = props;
  const attributes = attribution !== "none";
  return (
    <>
      <Segmented
        label="Colour the text by"
        value={attributes ? "attribution" : losses && loss ? "loss" : relation}
        choices={[...relations, ...(losses ? [LOSS] : []), ...(isFile(model) ? [] : [ATTRIBUTION])]}
        onChange={(value) => {
          if (value === "attribution") app.set({ attribution: "gradient_x_input", loss: false });
          else if (value === "loss") app.set({ attribution: "none", loss: true });
          else app.set({ attribution: "none", relation: value, loss: false, ...also });
        }}
      />
      {attributes && (
        <StateSelect
          field="attribution"
          help="attribution"
          options={METHODS.map((method) => [method, METHOD_ABOUT[method].name] as const)}
        />
      )}
    </>
  );
}

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
