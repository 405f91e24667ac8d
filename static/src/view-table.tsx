// The table of views.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "./app/api";
import type { View } from "./app/state";
import { Button } from "./ui/controls";
import { problemNotice } from "./ui/status";
import { CompareView } from "./views/compare/compare";
import { ExperimentView } from "./views/experiment/experiment";
import { HeadView } from "./views/head/head";
import { OverviewView } from "./views/overview/overview";
import { PairsView } from "./views/pairs/pairs";
import { TextView } from "./views/text/text";

const LOST = new Problem(0, "No answer", "The code of this view did not come.");

// Many browsers keep a failed import: only a reload fetches the code again, and the address holds the view.
const reload = (
  <Button class="primary" onClick={() => location.reload()}>
    Reload the page
  </Button>
);

// A view whose code is fetched when it is first shown, so that the first page stays light.
const lazy = (load: () => Promise<FunctionComponent>): FunctionComponent =>
  function Lazy() {
    const [View, setView] = useState<FunctionComponent | null>(null);
    const [failed, setFailed] = useState(false);
    useEffect(
      () =>
        void load().then(
          (view) => setView(() => view),
          () => setFailed(true),
        ),
      [],
    );
    return View ? <View /> : <section class="view">{failed && problemNotice(LOST, reload)}</section>;
  };

export const COMPONENTS: Record<View, FunctionComponent> = {
  overview: OverviewView,
  head: HeadView,
  text: TextView,
  pairs: PairsView,
  experiment: ExperimentView,
  compare: CompareView,
  trace: lazy(async () => (await import("./views/trace/trace")).TraceView),
  corpus: lazy(async () => (await import("./views/corpus/corpus")).CorpusView),
};

// The element that takes the keyboard's focus in a view: undefined for the last one, null while it is not drawn yet.
export const entranceOf = (view: View, root: HTMLElement): HTMLElement | null | undefined =>
  view === "head"
    ? root.querySelector<HTMLElement>(".view:not([aria-busy=true]) .plates:not([hidden]) canvas[tabindex]")
    : undefined;
