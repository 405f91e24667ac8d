// The token of a server that wants one: entered by hand, kept for this tab's session only, sent with every request.
import { keep, kept } from "./storage";

const KEY = "headscope-token";

export const token = (): string => kept("sessionStorage", KEY) ?? "";

export function keepToken(value: string): void {
  keep("sessionStorage", KEY, value || null);
}

// Header values are bytes: those of the token's UTF-8.
export function authorization(): Record<string, string> {
  const bytes = new TextEncoder().encode(token());
  return bytes.length ? { Authorization: `Bearer ${String.fromCharCode(...bytes)}` } : {};
}

let refused = false;
const listeners: (() => void)[] = [];
// True if the server has refused a request because of its token.
export const isRefused = (): boolean => refused;
export const onRefusal = (listener: () => void): void => void listeners.push(listener);
export function tellRefusal(): void {
  if (refused) return;
  refused = true;
  for (const listener of listeners) listener();
}
