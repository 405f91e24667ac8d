// Which cells of a square map are in sight. Linked maps share one viewport; sizes are their own.

export class Viewport {
  x = 0; // first cell in sight, a fraction allowed
  y = 0;
  span = 1; // cells in sight along each side
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
    const span = Math.min(this.n, Math.max(Math.min(4, this.n), this.span / factor));
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

  // As another viewport of the same size stands.
  show(x: number, y: number, span: number): void {
    [this.x, this.y, this.span] = [x, y, span];
    this.clamp();
  }

  // Moves just enough for a cell to be in sight.
  reveal(row: number, column: number): void {
    this.x = Math.min(column, Math.max(column + 1 - this.span, this.x));
    this.y = Math.min(row, Math.max(row + 1 - this.span, this.y));
    this.clamp();
  }

  private clamp(): void {
    this.x = Math.min(this.n - this.span, Math.max(0, this.x));
    this.y = Math.min(this.n - this.span, Math.max(0, this.y));
    this.changed();
  }
}

// Every how many cells a label fits.
export const labelStep = (cellPixels: number, labelPixels: number): number =>
  Math.max(1, Math.ceil(labelPixels / cellPixels));
