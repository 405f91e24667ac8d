// A story as one HTML file that works offline. It holds the slides, a script for the arrow keys, and the story itself,
// which the viewer can open again.
import { escapeBidi } from "../app/bidi";
import { parseStory, type Note, type Step, type Story } from "./story";

const escapeHtml = (text: string): string =>
  escapeBidi(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

// As an image, so that no script in a picture can run.
export const pictureAddress = (svg: string): string => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;

const STYLE = `
:root { color-scheme: light dark; --ink: #16191d; --page: #fbfbf9; --muted: #59626c; --accent: #0b5bb5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaec; --page: #111316; --muted: #a0a8b1; --accent: #74b3f4; } }
body { margin: 0; font: 22px/1.45 "IBM Plex Sans", system-ui, sans-serif; color: var(--ink); background: var(--page); }
section { display: grid; grid-template-rows: auto 1fr auto; gap: 2vh; box-sizing: border-box; min-height: 100vh; padding: 4vh 5vw; }
.slides section { display: none; height: 100vh; }
.slides section.shown { display: grid; }
h1 { margin: 0; font-size: clamp(26px, 4vw, 48px); line-height: 1.15; }
img { width: 100%; height: 100%; min-height: 0; object-fit: contain; background: #fff; border-radius: 8px; }
p { margin: 0; font-size: clamp(19px, 2.2vw, 30px); white-space: pre-wrap; }
ul { margin: 1vh 0 0; padding-left: 1.2em; font-size: clamp(16px, 1.6vw, 22px); }
footer { position: fixed; right: 2vw; bottom: 1.5vh; font-size: 15px; color: var(--muted); }
`;

const SCRIPT = `
const slides = [...document.querySelectorAll("section")];
let at = Math.max(0, Number(location.hash.slice(1)) - 1) || 0;
function show(n) {
  at = Math.min(slides.length - 1, Math.max(0, n));
  slides.forEach((slide, k) => slide.classList.toggle("shown", k === at));
  document.querySelector("footer").textContent = at + 1 + " / " + slides.length;
  history.replaceState(null, "", "#" + (at + 1));
}
document.body.classList.add("slides");
addEventListener("keydown", (e) => {
  const by = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }[e.key];
  if (by) { e.preventDefault(); show(at + by); }
});
addEventListener("click", (e) => show(at + (e.clientX < innerWidth / 4 ? -1 : 1)));
show(at);
`;

const listOf = (notes: readonly Note[]): string =>
  notes.length
    ? `<ul>${notes.map(({ about, words }) => `<li><b>${escapeHtml(about)}:</b> ${escapeHtml(words)}</li>`).join("")}</ul>`
    : "";

const slide = ({ title, caption, picture }: Step, notes: readonly Note[]): string =>
  `<section><h1>${escapeHtml(title)}</h1>` +
  (picture ? `<img src="${pictureAddress(picture)}" alt="${escapeHtml(title)}">` : "<div></div>") +
  `<div><p>${escapeHtml(caption)}</p>${listOf(notes)}</div></section>`;

const OPENING = '<script type="application/json" id="story">';
const CLOSING = "</script>";

// `shown`: the notes of each step. The others come last.
export function pageOf(story: Story, shown: readonly (readonly Note[])[]): string {
  const others = story.notes.filter((note) => !shown.some((notes) => notes.includes(note)));
  const slides = story.steps.map((step, n) => slide(step, shown[n] ?? []));
  if (others.length) slides.push(`<section><h1>Notes</h1><div>${listOf(others)}</div></section>`);
  return (
    `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">` +
    `<title>${escapeHtml(story.steps[0]?.title ?? "headscope")}</title><style>${STYLE}</style></head><body>\n` +
    `${slides.join("\n")}\n<footer></footer>\n` +
    `${OPENING}${JSON.stringify(story).replaceAll("<", "\\u003c")}${CLOSING}\n<script>${SCRIPT}${CLOSING}\n</body></html>\n`
  );
}

// The story in a saved file; an empty one if there is none.
export function storyIn(page: string): Story {
  const from = page.indexOf(OPENING);
  const to = page.indexOf(CLOSING, from);
  return parseStory(from < 0 || to < 0 ? "" : page.slice(from + OPENING.length, to));
}
