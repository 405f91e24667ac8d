// Light, dark, or as the system says.
import { keep, kept } from "./storage";

export const THEMES = ["system", "light", "dark"] as const;
type ThemeChoice = (typeof THEMES)[number];

export type Theme = "light" | "dark";

// Drawn in a theme.
interface Themed {
  theme: Theme;
  draw(): void;
}

const KEY = "headscope-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function themeChoice(): ThemeChoice {
  const saved = kept("localStorage", KEY);
  return THEMES.find((t) => t === saved) ?? "system";
}

export function applyTheme(choice: ThemeChoice, app: Themed): void {
  keep("localStorage", KEY, choice);
  app.theme = choice === "system" ? (dark.matches ? "dark" : "light") : choice;
  document.documentElement.dataset.theme = app.theme;
  app.draw();
}

export function watchTheme(app: Themed): void {
  applyTheme(themeChoice(), app);
  dark.addEventListener("change", () => applyTheme(themeChoice(), app));
}
