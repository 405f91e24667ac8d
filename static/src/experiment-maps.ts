// One head's maps before and after an experiment's change, and their difference.
import type { App, Selection } from "./app";
import type { Head } from "./analysis";
import type { Answer } from "./answer";
import { h, replace, segmented } from "./dom";
import { HeadPicker } from "./head-picker";
import { doesOf, type Edit } from "./interventions";
import { MapTrio, type Heading, type Pair } from "./map-trio";
import { headRequest, type Asked } from "./requests";
import { format } from "./scale";
import { SUM, type Scale, type State } from "./state";
import { statusOf } from "./status";
import type { Plate } from "./surface";

const WORDING = {
  labels: { first: "Map before", second: "Map after", both: "Difference map" },
  short: { first: "before", second: "after", both: "after − before" },
  forward: true,
};

export class ExperimentMaps {
  readonly element: HTMLElement;
  private readonly picker: HeadPicker;
  private readonly what;
  private readonly scale;
  private readonly tools: HTMLElement;
  private readonly trio: MapTrio;
  private readonly status = h("div");

  constructor(private readonly app: App) {
    this.picker = new HeadPicker(app, "Maps of layer", (layer, head) => app.set({ layer, head }, true), () => [app.state.what]);
    this.what = segmented<State["what"]>(
      "Map",
      [
        { value: "similarity", label: "Similarity S" },
        { value: "attention", label: "Attention" },
      ],
      (what) => app.set({ what }),
    );
    this.scale = segmented<Scale>(
      "Scale",
      [
        { value: "linear", label: "Linear" },
        { value: "log", label: "Log" },
        { value: "row", label: "Per row" },
      ],
      (scale) => app.set({ scale }),
    );
    // S itself: N hides a change of size, which is what a scaled head has.
    this.trio = new MapTrio(app, WORDING, ({ attention, similarity }) =>
      app.state.what === "attention" ? attention : similarity,
    );
    this.tools = h("div", { class: "toolbar" }, this.picker.element, this.what.element, this.scale.element);
    this.element = h("div", { class: "experiment-maps" }, this.tools, this.status, this.trio.element);
  }

  get drawn(): Plate[] {
    return this.trio.drawn;
  }

  update(answer: Answer, edits: readonly Edit[], selection: Selection, changed: Asked): void {
    const { app } = this;
    this.what.set(app.state.what);
    this.scale.set(app.state.scale);
    this.picker.update(answer, selection);
    this.tools.hidden = !edits.length;
    if (!edits.length) {
      this.trio.hide();
      return replace(this.status, h("p", { class: "muted" }, "A head’s maps before and after, and their difference, stand here once a head is changed."));
    }
    const [first, second] = [app.state, changed].map((asked) => app.cache.want(headRequest(asked, selection.layer, selection.head)));
    const waiting = [first!, second!].find(({ status }) => status !== "ready");
    replace(this.status, waiting && (waiting.status !== "loading" || !this.trio.pair) && statusOf(app, waiting));
    if (first!.answer && second!.answer)
      this.trio.show(app.exactHead(first!.answer), app.exactHead(second!.answer), (pair) => this.heading(pair, edits, selection));
    else if (waiting?.status !== "loading") this.trio.hide();
  }

  private heading({ delta, first, second }: Pair, edits: readonly Edit[], { layer, head }: Selection): Heading {
    const own = edits.filter((edit) => edit.layer === layer && (head === SUM || edit.head === head));
    const name = `Layer ${layer} · ${head === SUM ? "all heads" : `head ${head}`}`;
    const still = delta.every((v) => v === 0);
    const size = (map: Head): string => (this.app.state.what === "similarity" ? `largest S ${format(map.maximum)}` : "rows attend to columns");
    return {
      first: { title: `${name}, before`, note: size(first) },
      second: { title: "After", note: own.length === 1 && head !== SUM ? `${doesOf(own[0]!)}; ${size(second)}` : size(second) },
      both: { title: "After − before", note: still ? "nothing differs here" : "amber: more after, blue: less" },
    };
  }
}
