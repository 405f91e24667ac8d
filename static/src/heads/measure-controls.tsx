// Choose how heads are measured.
import { isFile } from "../app/sources";
import { useApp } from "../ui/context";
import { StateSelect, StateToggle } from "../ui/state-controls";

// Weights and the residual space need the model.
export function MeasureControls() {
  const { state } = useApp();
  return (
    <>
      {!isFile(state.model) && <StateToggle field="weigh" />}
      {!isFile(state.model) && <StateSelect field="space" />}
    </>
  );
}
