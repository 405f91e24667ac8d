// Fetches, reloads and removes models of a server that was started with --pull.
import type { Pull } from "../../../build/openapi";
import { getJson, postJson, Problem, send } from "./api";

export type { Pull };

export const isUnderWay = ({ state }: Pull): boolean => state === "downloading" || state === "loading";

// Null if the server does not change its models.
export async function lastPull(): Promise<Pull | null> {
  try {
    return await getJson<Pull>("pull");
  } catch (error) {
    if (error instanceof Problem && error.status === 501) return null;
    throw error;
  }
}

export const fetchModel = async (name: string): Promise<Pull> =>
  (await (await postJson("models", { name })).json()) as Pull;

export const cancelPull = (): Promise<unknown> => send("pull/cancel", { method: "POST" });
export const removeModel = (name: string): Promise<unknown> =>
  send(`models/${encodeURIComponent(name)}`, { method: "DELETE" });
