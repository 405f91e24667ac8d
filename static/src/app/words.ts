// Words and numbers as they are written on the page.

// As at the beginning of a line.
export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

// "1 text", "1,204 texts"
export const counted = (n: number, one: string): string => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

export const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);
