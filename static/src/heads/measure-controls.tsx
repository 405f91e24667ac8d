// Choose how heads are measured.
import { useApp } from "../ui/context";
import { Select, Toggle } from "../ui/controls";

export function MeasureControls() {
  const app = useApp();
  const { weigh, space } = app.state;
  return (
    <>
      <Toggle
        label="Weight by norms"
        help="weighted"
        title="Attention times the norm of the vector each token passes on: a column that gathers attention may pass on little"
        on={weigh}
        onChange={(on) => app.set({ weigh: on })}
      />
      <Select
        label="Similarity in"
        help="space"
        title="Residual: of the vectors the head writes into the hidden state, which do not depend on its arbitrary coordinates"
        value={space}
        options={[
          ["head", "the head’s space"],
          ["residual", "the residual space"],
        ]}
        onChange={(value) => app.set({ space: value })}
      />
    </>
  );
}
