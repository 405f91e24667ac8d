// One row of a view's controls: what is used often, the rest behind "More" or another name, and one "?" for all of them.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { INITIAL, type State } from "../app/state";
import { nameOfView } from "../app/views";
import { useApp } from "./context";
import { Button } from "./controls";
import { Terms, type Term } from "./explain";

export function Toolbar(props: {
  terms: readonly Term[]; // of all controls
  more?: ComponentChildren; // controls that are rarely used
  named?: string; // what shows them
  rare?: readonly (keyof State)[]; // their fields: if one is not as it is at first, they are shown
  children: ComponentChildren;
}) {
  const { terms, more, named = "More", rare = [] } = props;
  const app = useApp();
  const { state } = app;
  const name = nameOfView(state.view);
  const [opened, setOpened] = useState<boolean | null>(null);
  // Draws anew: a view may fit the window below the controls.
  const toggle = (): void => {
    setOpened(!open);
    app.draw();
  };
  const needed = rare.some((field) => state[field] !== INITIAL[field]);
  const open = opened ?? needed;
  // Controls that were needed stay where they are until they are closed.
  useEffect(() => {
    if (needed && opened === null) setOpened(true);
  }, [needed]);
  return (
    <>
      <div class="toolbar" role="toolbar" aria-label={`Controls of ${name}`}>
        {props.children}
        <div class="ends">
          {more && (
            <Button aria-expanded={open} onClick={toggle}>
              {named}
            </Button>
          )}
          <Terms of={terms} />
        </div>
      </div>
      {more && open && (
        <div class="toolbar" role="toolbar" aria-label={`More controls of ${name}`}>
          {more}
        </div>
      )}
    </>
  );
}
