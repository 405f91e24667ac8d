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

// The scripts of Unicode that are written from right to left and that people type.
const RIGHT_TO_LEFT =
  /\p{Script=Hebrew}|\p{Script=Arabic}|\p{Script=Syriac}|\p{Script=Thaana}|\p{Script=Nko}|\p{Script=Adlam}/u;

// The direction of a text is that of its first letter, as with dir="auto". That attribute would read the chip "[CLS]"
// before the text and call every text left to right.
export const directionOf = (text: string): "ltr" | "rtl" =>
  RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? "") ? "rtl" : "ltr";
