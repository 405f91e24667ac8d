// A token as people read it. Tokenizers write spaces and bytes in characters of their own, such as "Ġ" or "▁" for a
// space. Byte-level ones write every byte that is no printable Latin-1 as a letter from U+0100 on, so "é" is "Ã©". The
// service answers tokens so; here, and nowhere else, they become text, with a mark where a space is. A byte that is no
// whole character is written out, ⟨E2⟩, until it meets the rest of it in a merged word.
import { tokenizerOf } from "./model-facts";

export const SPACE = "␣";
const UTF8 = new TextDecoder("utf-8", { fatal: true });

// The characters that represent bytes.
const byteOf = new Map<string, number>();
for (let byte = 0, next = 0x100; byte < 256; byte++) {
  const printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  byteOf.set(String.fromCodePoint(printable ? byte : next++), byte);
}

// Replaces characters that would move or vanish on the page.
const shown = (text: string): string =>
  text.replace(/[\0-\x20\x7f]/g, (c) =>
    c === " " ? SPACE : c === "\x7f" ? "␡" : String.fromCodePoint(0x2400 + c.charCodeAt(0)),
  );

const written = (bytes: Iterable<number>): string =>
  Array.from(bytes, (byte) => `⟨${byte.toString(16).toUpperCase().padStart(2, "0")}⟩`).join("");

// Bytes to text; what is no whole character is written out.
function textOf(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at] ?? 0;
    const n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      // A decoder's call takes far longer than an ASCII character needs, and long texts have many.
      text += n === 1 ? String.fromCharCode(first) : UTF8.decode(bytes.subarray(at, at + n));
      at += n;
    } catch {
      text += written([first]);
      at++;
    }
  }
  return shown(text);
}

export const readable = (token: string, model: string): string => readableAs(token, tokenizerOf(model));

export type TokenSpelling = ReturnType<typeof tokenizerOf>;
export function readableAs(token: string, kind: TokenSpelling): string {
  if (kind === "Unigram" || kind === "BPE") return shown(token.replaceAll("▁", " "));
  if (kind !== "byte-level BPE") return token;
  const bytes = Array.from(token, (c) => byteOf.get(c));
  // An added token may be of any characters, and is as it is written.
  return bytes.every((byte) => byte !== undefined) ? textOf(Uint8Array.from(bytes)) : shown(token);
}

// Pieces of one word: bytes that were written out and now meet are characters.
export const joined = (pieces: readonly string[]): string =>
  pieces
    .join("")
    .replace(/(?:⟨[0-9A-F]{2}⟩){2,}/g, (run) =>
      textOf(Uint8Array.from(run.match(/[0-9A-F]{2}/g) ?? [], (hex) => parseInt(hex, 16))),
    );

const TOKEN_KEYS = new Set(["token", "tokens", "token_i", "token_j", "focal_token"]);

// Replaces every token of a JSON answer, in place: those of a long text have many thousands, most of them several times.
export function readableAnswer<T>(answer: T, model: string): T {
  const known = new Map<string, string>();
  const spell = (token: string): string => {
    let text = known.get(token);
    if (text === undefined) known.set(token, (text = readable(token, model)));
    return text;
  };
  const read = <K extends string | number>(parts: Record<K, unknown>, name: K, isToken: boolean): void => {
    const part = parts[name];
    if (typeof part === "string") {
      if (isToken) parts[name] = spell(part);
    } else if (Array.isArray(part)) {
      if (typeof part[0] !== "number")
        for (let k = 0; k < part.length; k++) read(part as Record<number, unknown>, k, isToken);
    } else if (part !== null && typeof part === "object") {
      for (const key in part) read(part as Record<string, unknown>, key, TOKEN_KEYS.has(key));
    }
  };
  read({ answer }, "answer", false);
  return answer;
}
