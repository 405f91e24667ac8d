// Chooses the kind of map that is compared.
import { StateSegmented } from "../../ui/state-controls";

export const QuantityControl = ({ similarity }: { similarity: string }) => (
  <StateSegmented
    field="what"
    choices={[
      { value: "similarity", label: similarity },
      { value: "attention", label: "Attention" },
    ]}
  />
);
