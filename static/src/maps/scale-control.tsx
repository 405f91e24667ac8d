// Chooses how a map's values become colours.
import { useApp } from "../ui/context";
import { Segmented } from "../ui/controls";

const CHOICES = [
  { value: "linear", label: "Linear" },
  { value: "log", label: "Log", title: "Four decades below the maximum" },
  { value: "row", label: "Per row", title: "Each query's row to its own maximum" },
] as const;

export function ScaleControl() {
  const app = useApp();
  return (
    <Segmented
      legend="Scale"
      help="scale"
      value={app.state.scale}
      choices={CHOICES}
      onChange={(scale) => app.set({ scale })}
    />
  );
}
