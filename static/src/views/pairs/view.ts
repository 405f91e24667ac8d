// Registers the view Pairs.
import { addView } from "../../app/views";
import { PairsView } from "./pairs";

addView("pairs", { component: PairsView });
