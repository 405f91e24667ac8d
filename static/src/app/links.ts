// Short links: the server keeps the fragment of an address under a short name, if it was started with a folder.
import type { Link } from "../../../build/openapi";
import { getJson, postJson } from "./api";

// The name in "#link=NAME"; null for other fragments.
export const linkIn = (fragment: string): string | null => /^#link=([\w-]+)$/.exec(fragment)?.[1] ?? null;

// The fragment that a name stands for.
export const readLink = async (id: string): Promise<string> => (await getJson<Link>(`links/${id}`)).state;

// The short form of an address. Fails with status 501 if the server keeps none.
export async function shortened(address: string): Promise<string> {
  const [page = "", state = ""] = address.split("#");
  const response = await postJson("links", { state: state || "view=overview" });
  return `${page}#link=${((await response.json()) as Link).id}`;
}
