// The name of a run.
import type { Run } from "./api";
import { escapeBidi } from "../../app/bidi";

export const nameOfRun = (run: Run): string => escapeBidi(run.name || run.id);

// A name without characters that file names do not have.
export const fileName = (name: string): string => name.replaceAll(/[^\w.-]+/g, "_");

// When it was sent, by this reader's clock: "2026-11-22 08:40", or with its seconds; "" where the server does not know.
export function dateOfRun({ created }: Run, seconds = false): string {
  if (!created) return "";
  const at = new Date(created);
  const two = (n: number): string => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}
