// Registers the view Overview.
import { addView } from "../../app/views";
import { OverviewView } from "./overview";

addView("overview", { component: OverviewView });
