// The choice of what the tokens are coloured by, and of the method of attributions.
import { isFile } from "../../app/sources";
import type { State } from "../../app/state";
import { METHOD_ABOUT, METHODS } from "../../passes/attribution";
import { useApp } from "../../ui/context";
import { Segmented } from "../../ui/controls";
import { StateSelect } from "../../ui/state-controls";
import type { Relation } from "./relation";

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
