// Registers the view Text.
import { addView } from "../../app/views";
import { TextView } from "./text";

addView("text", { component: TextView });
