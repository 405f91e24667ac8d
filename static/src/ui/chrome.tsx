// The frame around the views: the bar above with its tabs and menus, the readout below.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { embedded } from "../app/embed";
import { formatState } from "../app/state";
import { applyTheme, THEMES, themeChoice } from "../app/theme";
import { nameOfView } from "../app/views";
import { useApp } from "./context";
import { Button, Options } from "./controls";
import { ModelBadge } from "./precision";
import { Sections } from "./sections";
import { capital } from "../app/words";

const RESTING = "Point at a map for values · ? lists the keys";

export function TopBar({ menu, onHelp }: { menu: ComponentChildren; onHelp: () => void }) {
  const app = useApp();
  return (
    <header class="top" hidden={embedded}>
      <div class="joined" role="toolbar" aria-label="Home and sections">
        <a class="brand" href="./" aria-label="headscope">
          <Mark />
          <span>headscope</span>
        </a>
        <Sections />
      </div>
      <div class="tools" role="toolbar" aria-label="Tools">
        {menu}
        <select
          aria-label="Theme"
          value={themeChoice()}
          onChange={(e) => applyTheme(THEMES.find((t) => t === e.currentTarget.value) ?? "system", app)}
        >
          <Options of={THEMES.map((theme) => [theme, capital(theme)])} />
        </select>
        <Button class="icon" aria-label="Keys and help" title="Keys and help (?)" onClick={onHelp}>
          ?
        </Button>
      </div>
    </header>
  );
}

// The line changes with every move of the pointer, so it is written without a drawing of the page.
export function Readout() {
  const app = useApp();
  const line = useRef<HTMLOutputElement>(null);
  const status = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    app.announcer = (text, aloud) => {
      if (line.current) {
        line.current.textContent = text || RESTING;
        line.current.classList.toggle("resting", !text);
      }
      if (aloud && status.current) status.current.textContent = text;
    };
    app.announce("");
  }, [app]);
  return (
    <footer class="readout">
      <output class="line" aria-hidden="true" ref={line} />
      <div class="hidden" role="status" aria-live="polite" ref={status} />
      {embedded && <FrameLinks />}
    </footer>
  );
}

// In a frame: back to the view that was opened there, and on to the whole viewer.
function FrameLinks() {
  const app = useApp();
  const [first] = useState(app.state.view);
  return (
    <span class="ways">
      <ModelBadge />
      <Button class="link" hidden={app.state.view === first} onClick={() => app.go(first)}>
        ← {nameOfView(first)}
      </Button>
      <a target="_blank" rel="noopener" href={`./#${formatState(app.state)}`}>
        Open in headscope
      </a>
    </span>
  );
}

// Nine cells of a map: a diagonal and one column.
function Mark() {
  const on = [0, 4, 8, 5, 2];
  return (
    <svg viewBox="0 0 20 20" width={20} height={20} aria-hidden="true">
      {Array.from({ length: 9 }, (_, n) => (
        <rect
          key={n}
          x={1 + (n % 3) * 6.5}
          y={1 + Math.floor(n / 3) * 6.5}
          width={5}
          height={5}
          rx={1}
          class={on.includes(n) ? (n % 4 === 0 ? "on" : "half") : "off"}
        />
      ))}
    </svg>
  );
}
