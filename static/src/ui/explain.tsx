// Explanations of the method's terms: behind a "?" at each control, and all together in the glossary.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { openDialog } from "./dialog";
import { aboutOf, SIDE, type Term } from "./terms";

export type { Term };

const CELLS = Array.from({ length: SIDE * SIDE }, (_, k) => [Math.floor(k / SIDE), k % SIDE] as const);

export function Explanation({ term }: { term: Term }) {
  const { text, picture, similarity } = aboutOf(term);
  return (
    <div class="explanation">
      <svg viewBox={`0 0 ${SIDE} ${SIDE}`} aria-hidden="true" class={similarity ? "similarity" : ""}>
        {CELLS.map(([i, j]) => (
          <rect key={`${i} ${j}`} x={j} y={i} width={1} height={1} opacity={picture(i, j)} />
        ))}
      </svg>
      <p>{text}</p>
    </div>
  );
}

let places = 0;

// A control with its "?".
export function Explained({ term, children }: { term: Term | undefined; children: ComponentChildren }) {
  if (!term) return <>{children}</>;
  return (
    <div class="explained">
      {children}
      <Terms of={[term]} />
    </div>
  );
}

// The "?" that explains one control, or all of a group.
export function Terms({ of }: { of: readonly Term[] }) {
  const [id] = useState(() => `explain-${places++}`);
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const place = (): void => {
    if (!button.current || !sheet.current) return;
    const { left, bottom } = button.current.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = sheet.current;
    sheet.current.style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
    sheet.current.style.top = `${Math.max(8, Math.min(bottom + 4, innerHeight - offsetHeight - 8))}px`;
  };
  const toggle = (e: Event): void => {
    setOpen((e as ToggleEvent).newState === "open");
    requestAnimationFrame(place);
  };
  return (
    <>
      <button type="button" class="what" popovertarget={id} ref={button}>
        <span aria-hidden="true">?</span>
        <span class="hidden">What is: {of.map((term) => aboutOf(term).name).join(", ")}?</span>
      </button>
      <div popover="auto" id={id} class="explain-sheet" ref={sheet} onToggle={toggle}>
        {open && (
          <>
            {of.map((term) => (
              <div key={term}>
                <strong>{aboutOf(term).name}</strong>
                <Explanation term={term} />
              </div>
            ))}
            <button type="button" class="link" onClick={openGlossary}>
              All terms
            </button>
          </>
        )}
      </div>
    </>
  );
}

export const GLOSSARY = "glossary";

export function openGlossary(): void {
  document.querySelector<HTMLElement>(".explain-sheet:popover-open")?.hidePopover();
  openDialog(GLOSSARY);
}
