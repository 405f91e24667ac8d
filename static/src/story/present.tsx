// A story on the whole screen, in large type. Arrows go on and back, Esc ends.
import { useEffect, useRef } from "preact/hooks";
import { escapeBidi } from "../app/bidi";
import { pictureAddress } from "./page";
import type { Note, Step } from "./story";
import { Button } from "../ui/controls";

export function Presentation(props: {
  story: readonly Step[];
  notes: readonly Note[]; // of the step
  at: number;
  onMove: (at: number) => void;
  onOpen: () => void; // the view itself
  onEnd: () => void;
}) {
  const { story, notes, at, onMove, onOpen, onEnd } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    // Some browsers and frames refuse; the dialog fills the window all the same.
    element?.requestFullscreen?.().catch(() => {});
    return () => {
      if (document.fullscreenElement) void document.exitFullscreen();
    };
  }, []);
  const step = story[at];
  if (!step) return null;
  const go = (by: number): void => onMove(Math.min(story.length - 1, Math.max(0, at + by)));
  const onKeyDown = (e: KeyboardEvent): void => {
    const by = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[e.key];
    e.stopPropagation();
    if (!by) return;
    e.preventDefault();
    go(by);
  };
  return (
    <dialog class="presentation" aria-label="Presentation" ref={dialog} onKeyDown={onKeyDown} onClose={onEnd}>
      <h2 aria-live="polite">{escapeBidi(step.title)}</h2>
      {step.picture ? (
        <img src={pictureAddress(step.picture)} alt={`The view: ${escapeBidi(step.title)}`} />
      ) : (
        <p class="muted">This step has no picture. Open its view.</p>
      )}
      <div>
        <p class="caption">{escapeBidi(step.caption)}</p>
        {notes.length > 0 && (
          <ul>
            {notes.map(({ about, words }, n) => (
              <li key={n}>
                <b>{escapeBidi(about)}:</b> {escapeBidi(words)}
              </li>
            ))}
          </ul>
        )}
      </div>
      <div class="ways-on">
        <Button disabled={at === 0} onClick={() => go(-1)}>
          ← Back
        </Button>
        <span>
          {at + 1} / {story.length}
        </span>
        <Button disabled={at + 1 === story.length} onClick={() => go(1)}>
          Next →
        </Button>
        <Button onClick={onOpen}>Open the view</Button>
        <Button onClick={() => dialog.current?.close()}>End</Button>
      </div>
    </dialog>
  );
}
