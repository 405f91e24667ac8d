// Moves the keyboard's focus along when the view changes.

// The element that takes the focus in a view: undefined for the last one, null while it is not drawn yet.
type Entrance = HTMLElement | null | undefined;

export class FocusKeeper {
  private readonly left = new Map<HTMLElement, HTMLElement>(); // the focus when a view was left
  private byKeys = false; // a map must not take the focus from the mouse: it would take the wheel as well
  private awaited: HTMLElement | null = null; // the view whose entrance the keyboard waits for

  constructor(private readonly entranceOf: (root: HTMLElement) => Entrance) {
    addEventListener("keydown", () => (this.byKeys = true), { capture: true });
    addEventListener("pointerdown", () => (this.byKeys = false), { capture: true });
  }

  // Called before a view goes; true if the focus was in the stage.
  leave(root: HTMLElement, stage: HTMLElement): boolean {
    const focused = document.activeElement;
    if (!(focused instanceof HTMLElement) || !stage.contains(focused)) return false;
    this.left.set(root, focused);
    return true;
  }

  // Called once the next view is drawn: focuses its entrance, or the place where it was left.
  enter(root: HTMLElement, stage: HTMLElement): void {
    const entrance = this.entranceOf(root);
    const target = entrance === undefined ? this.left.get(root) : this.byKeys && entrance;
    if (target) target.focus();
    if (!stage.contains(document.activeElement)) this.hold(root);
  }

  // The view keeps the focus until its entrance is drawn.
  private hold(root: HTMLElement): void {
    const view = root.firstElementChild as HTMLElement;
    view.tabIndex = -1;
    view.focus({ preventScroll: true });
    this.awaited = this.byKeys && this.entranceOf(root) === null ? root : null;
  }

  // Called after each drawing: a map that comes late, or gives way to the next head's, gets the focus once it is drawn,
  // unless the focus has moved on.
  follow(root: HTMLElement): void {
    const focused = document.activeElement;
    const entrance = this.entranceOf(root);
    if (entrance === null) {
      if (this.byKeys && focused && root.contains(focused) && !focused.checkVisibility({ visibilityProperty: true }))
        this.hold(root);
      return;
    }
    if (this.awaited === root && focused === root.firstElementChild) entrance?.focus();
    this.awaited = null;
  }
}
