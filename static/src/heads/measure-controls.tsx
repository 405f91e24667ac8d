// Choose how heads are measured.
import { embedded } from "../app/embed";
import { hasSimilarities, isFile } from "../app/sources";
import { useApp } from "../ui/context";
import { StateSelect, StateToggle } from "../ui/state-controls";

// Their fields.
export const CENTRE_IN_FRAME = embedded ? (["center"] as const) : [];
export const MEASURE_FIELDS = ["weigh", "space", ...CENTRE_IN_FRAME] as const;

// Weights and the residual space need the model.
export function MeasureControls() {
  const { state } = useApp();
  return (
    <>
      {!isFile(state.model) && <StateToggle field="weigh" />}
      {!isFile(state.model) && <StateSelect field="space" />}
      <CentreInFrame />
    </>
  );
}

// A frame has no panel, where "Centre outputs" is otherwise.
export function CentreInFrame() {
  const { state } = useApp();
  return embedded && hasSimilarities(state) ? <StateToggle field="center" /> : null;
}
