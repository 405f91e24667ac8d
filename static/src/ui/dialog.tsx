// Dialogs, each opened by its name.
import type { ComponentChildren } from "preact";

const dialogIn = (id: string) => document.getElementById(id) as HTMLDialogElement | null;

export function openDialog(id: string): void {
  const dialog = dialogIn(id);
  if (dialog && !dialog.open) dialog.showModal();
}
export const closeDialog = (id: string): void => dialogIn(id)?.close();

function isBeside({ target, clientX: x, clientY: y }: MouseEvent, dialog: Element): boolean {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return target === dialog && (x < left || x > right || y < top || y > bottom);
}

// A dialog that is opened by its name, with a button that closes it. A click beside it does, too.
export const Dialog = (props: {
  id: string;
  label: string;
  title?: string; // else its label
  class?: string;
  onClose?: () => void;
  children: ComponentChildren;
}) => (
  <dialog
    class={`help ${props.class ?? ""}`}
    id={props.id}
    aria-label={props.label}
    onClose={props.onClose}
    onClick={(e) => isBeside(e, e.currentTarget) && e.currentTarget.close()}
  >
    <form method="dialog">
      <h2>{props.title ?? props.label}</h2>
      <button class="icon" aria-label="Close">
        ×
      </button>
    </form>
    {props.children}
  </dialog>
);
