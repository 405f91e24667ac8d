// One row of a view's controls: what is used often, the rest behind "More", and one "?" for all of them.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { INITIAL, type State } from "../app/state";
import { useApp } from "./context";
import { Button } from "./controls";
import { Terms, type Term } from "./explain";

export function Toolbar(props: {
  terms: readonly Term[]; // of all controls
  more?: ComponentChildren; // controls that are rarely used
  rare?: readonly (keyof State)[]; // their fields: if one is not as it is at first, they are shown
  children: ComponentChildren;
}) {
  const { terms, more, rare = [] } = props;
  const app = useApp();
  const { state } = app;
  const [opened, setOpened] = useState<boolean | null>(null);
  // Draws anew, as cards are placed by what moves below.
  const toggle = (): void => {
    setOpened(!open);
    app.draw();
  };
  const open = opened ?? rare.some((field) => state[field] !== INITIAL[field]);
  return (
    <>
      <div class="toolbar">
        {props.children}
        <div class="ends">
          {more && (
            <Button aria-expanded={open} onClick={toggle}>
              More
            </Button>
          )}
          <Terms of={terms} />
        </div>
      </div>
      {more && open && <div class="toolbar">{more}</div>}
    </>
  );
}
