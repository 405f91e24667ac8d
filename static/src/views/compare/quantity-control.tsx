// Chooses the kind of map that is compared.
import { useApp } from "../../ui/context";
import { Segmented } from "../../ui/controls";

export function QuantityControl({ similarity }: { similarity: string }) {
  const app = useApp();
  const choices = [
    { value: "similarity", label: similarity },
    { value: "attention", label: "Attention" },
  ] as const;
  return (
    <Segmented
      help="normalised"
      legend="Map"
      value={app.state.what}
      choices={choices}
      onChange={(what) => app.set({ what })}
    />
  );
}
