// A view whose code is fetched when it is first shown, so that the first page stays light.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../app/api";
import { Button } from "./controls";
import { problemNotice } from "./status";

const LOST = new Problem(0, "No answer", "The code of this view did not come.");

// Many browsers keep a failed import: only a reload fetches the code again, and the address holds the view.
const reload = (
  <Button class="primary" onClick={() => location.reload()}>
    Reload the page
  </Button>
);

export const lazy = (load: () => Promise<FunctionComponent>): FunctionComponent =>
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
