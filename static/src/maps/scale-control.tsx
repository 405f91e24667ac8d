// Chooses how a map's values become colours.
import { StateSegmented } from "../ui/state-controls";

const CHOICES = [
  {
    value: "root",
    label: "Root",
    title: "Square root, as in the overview: faint values show, and heads can be compared",
  },
  { value: "linear", label: "Linear" },
  { value: "log", label: "Log", title: "Four decades below the maximum" },
  { value: "row", label: "Per row", title: "Each query's row to its own maximum" },
] as const;

export const ScaleControl = () => <StateSegmented legend="Scale" help={null} field="scale" choices={CHOICES} />;
