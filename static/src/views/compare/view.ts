// Registers the view Compare.
import { addView } from "../../app/views";
import { CompareView } from "./compare";

addView("compare", { component: CompareView });
