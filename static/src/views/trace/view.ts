// Registers the view Trace.
import { addView } from "../../app/views";
import { lazy } from "../../ui/lazy";

addView("trace", { component: lazy(async () => (await import("./trace")).TraceView) });
