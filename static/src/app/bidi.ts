// Characters that turn the direction of what follows are written out, not obeyed: a text must not change how the page
// around it reads.
const NAMES: Record<string, string> = {
  "\u061c": "ALM",
  "\u200e": "LRM",
  "\u200f": "RLM",
  "\u202a": "LRE",
  "\u202b": "RLE",
  "\u202c": "PDF",
  "\u202d": "LRO",
  "\u202e": "RLO",
  "\u2066": "LRI",
  "\u2067": "RLI",
  "\u2068": "FSI",
  "\u2069": "PDI",
};

export const escapeBidi = (text: string): string =>
  text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => `⟨${NAMES[c]}⟩`);
