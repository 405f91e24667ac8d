// Storage of the browser for this page. In a frame of another site it may be refused; then nothing is kept.
type Kind = "localStorage" | "sessionStorage";

export function kept(kind: Kind, key: string): string | null {
  try {
    return window[kind].getItem(key);
  } catch {
    return null;
  }
}

// null: kept no longer.
export function keep(kind: Kind, key: string, value: string | null): void {
  try {
    if (value === null) window[kind].removeItem(key);
    else window[kind].setItem(key, value);
  } catch {
    // it lasts as long as the page
  }
}
