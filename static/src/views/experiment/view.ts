// Registers the view Experiment.
import { addView } from "../../app/views";
import { ExperimentView } from "./experiment";

addView("experiment", { component: ExperimentView });
