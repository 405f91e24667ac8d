// The visible cells of a map. Linked maps share one viewport; sizes are their own. A map with fewer rows than columns, or
// fewer columns than rows, has cells that are several units high or wide.

const LEAST = 4; // visible cells at the closest

export class Viewport {
  x = 0; // first visible cell, a fraction allowed
  y = 0;
  span = 1; // visible cells along each side
  private readonly watchers = new Set<() => void>();

  constructor(public n = 1) {
    this.reset(n);
  }

  watch(watcher: () => void): void {
    this.watchers.add(watcher);
  }
  private changed(): void {
    for (const watcher of this.watchers) watcher();
  }

  reset(n = this.n): void {
    this.n = Math.max(1, n);
    this.x = this.y = 0;
    this.span = this.n;
    this.changed();
  }

  get zoomed(): boolean {
    return this.span < this.n - 1e-6;
  }

  // Zooms by a factor (above 1: closer) and keeps the point at (u, v), 0..1 of the plot, where it is.
  zoom(factor: number, u = 0.5, v = 0.5): void {
    const span = Math.min(this.n, Math.max(Math.min(LEAST, this.n), this.span / factor));
    this.x += u * (this.span - span);
    this.y += v * (this.span - span);
    this.span = span;
    this.clamp();
  }

  pan(du: number, dv: number): void {
    this.x -= du * this.span;
    this.y -= dv * this.span;
    this.clamp();
  }

  // Takes the place of another viewport of the same size.
  show(x: number, y: number, span: number): void {
    [this.x, this.y, this.span] = [x, y, span];
    this.clamp();
  }

  // As the address says it, in hundredths of a cell: [] for the whole map.
  get state(): readonly number[] {
    return this.zoomed ? [this.x, this.y, this.span].map((v) => Math.round(100 * v)) : [];
  }
  private restore(state: readonly number[]): void {
    const [x = 0, y = 0, span = 100 * this.n] = state;
    this.span = Math.min(this.n, Math.max(Math.min(LEAST, this.n), span / 100));
    [this.x, this.y] = [x / 100, y / 100];
    this.clamp();
  }

  // Takes a map's size and its window from the address, if either has changed.
  follow(n: number, state: readonly number[]): void {
    const size = Math.max(1, n);
    if (this.n === size && String(this.state) === String(state)) return;
    this.n = size;
    this.restore(state);
  }

  // Moves just enough for a cell of this size to be visible.
  reveal(row: number, column: number, [high, wide]: readonly [number, number] = [1, 1]): void {
    this.x = Math.min(column * wide, Math.max((column + 1) * wide - this.span, this.x));
    this.y = Math.min(row * high, Math.max((row + 1) * high - this.span, this.y));
    this.clamp();
  }

  // In hundredths of a cell, as the address has it: a link shows the very same.
  private clamp(): void {
    const round = (v: number): number => Math.round(100 * v) / 100;
    this.span = round(this.span);
    this.x = round(Math.min(this.n - this.span, Math.max(0, this.x)));
    this.y = round(Math.min(this.n - this.span, Math.max(0, this.y)));
    this.changed();
  }
}

// Every how many cells a label fits.
export const labelStep = (cellPixels: number, labelPixels: number): number =>
  Math.max(1, Math.ceil(labelPixels / cellPixels));
