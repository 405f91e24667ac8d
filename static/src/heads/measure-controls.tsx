// Choose how heads are measured.
import { hasSimilarities, isFile } from "../app/sources";
import { useApp } from "../ui/context";
import { StateSelect, StateToggle } from "../ui/state-controls";

// Weights and the residual space need the model.
export function MeasureControls() {
  const { state } = useApp();
  return (
    <>
      {!isFile(state.model) && (
        <>
          <StateToggle
            label="Weight by norms"
            help={null}
            title="Attention times the norm of the vector each token passes on: a column that gathers attention may pass on little"
            field="weigh"
          />
          <StateSelect
            label="Similarity in"
            help={null}
            title="Residual: of the vectors the head writes into the hidden state, which do not depend on its arbitrary coordinates"
            field="space"
            options={[
              ["head", "the head’s space"],
              ["residual", "the residual space"],
            ]}
          />
        </>
      )}
      {hasSimilarities(state) && <CentreToggle />}
    </>
  );
}

export const CentreToggle = () => (
  <StateToggle
    label="Centre outputs"
    help={null}
    title="Similarity of the outputs without their mean over the text, which all tokens share"
    field="center"
  />
);
