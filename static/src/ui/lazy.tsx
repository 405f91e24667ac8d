// A view whose code is fetched when it is first shown, so that the first page stays light.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../app/api";
import { Button } from "./controls";
import { problemNotice } from "./status";

const LOST = new Problem(0, "No answer", "The code of this view did not come. Try again, or reload the page.");

export const lazy = (load: () => Promise<FunctionComponent>): FunctionComponent =>
  function Lazy() {
    const [View, setView] = useState<FunctionComponent | null>(null);
    const [failed, setFailed] = useState(false);
    const fetchView = (): void => {
      setFailed(false);
      load().then(
        (view) => setView(() => view),
        () => setFailed(true),
      );
    };
    useEffect(fetchView, []);
    if (View) return <View />;
    const again = (
      <Button class="primary" onClick={fetchView}>
        Try again
      </Button>
    );
    return <section class="view">{failed && problemNotice(LOST, again)}</section>;
  };
