// A view whose code is fetched when it is first shown, so that the first page stays light.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";

export const lazy = (load: () => Promise<FunctionComponent>): FunctionComponent =>
  function Lazy() {
    const [View, setView] = useState<FunctionComponent | null>(null);
    useEffect(() => void load().then((view) => setView(() => view)), []);
    return View ? <View /> : <section class="view" />;
  };
