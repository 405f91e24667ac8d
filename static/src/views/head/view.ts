// Registers the view Head.
import { addView } from "../../app/views";
import { HeadView } from "./head";

addView("head", {
  component: HeadView,
  entrance: (root) => root.querySelector<HTMLElement>(".plates:not([hidden]) canvas[tabindex]"),
});
