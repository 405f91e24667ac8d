// Gives every component the app it is part of.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { App } from "../app/app";

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("A component is drawn outside of the app.");
  return app;
}
