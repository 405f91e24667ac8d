// Fetches, reloads and removes models of a server that was started with --pull.
import type { Pull } from "../../../build/openapi";
import { Problem, send } from "./api";

export type { Pull };

export const isUnderWay = ({ state }: Pull): boolean => state === "downloading" || state === "loading";

// Null if the server does not change its models.
export async function lastPull(): Promise<Pull | null> {
  try {
    return (await (await send("pull", { headers: { Accept: "application/json" } })).json()) as Pull;
  } catch (error) {
    if (error instanceof Problem && error.status === 501) return null;
    throw error;
  }
}

export async function fetchModel(name: string): Promise<Pull> {
  const response = await send("models", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name }),
  });
  return (await response.json()) as Pull;
}

export const cancelPull = (): Promise<unknown> => send("pull/cancel", { method: "POST" });
export const removeModel = (name: string): Promise<unknown> =>
  send(`models/${encodeURIComponent(name)}`, { method: "DELETE" });
