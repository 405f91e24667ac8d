// Gives every component the app it is part of.
import { createContext } from "preact";
import { useContext, useLayoutEffect } from "preact/hooks";
import type { App } from "../app/app";
import type { Exportable } from "../saving/export";

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("A component is drawn outside of the app.");
  return app;
}

// Offers what the view on screen can save.
export function useExport(make: () => Exportable | null): void {
  const app = useApp();
  useLayoutEffect(() => {
    app.exportable = make;
    app.onExportable();
  });
}
