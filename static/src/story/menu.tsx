// The menu of the story: adds the view on screen, edits, presents and saves the steps.
import { useEffect, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { escapeBidi } from "../app/bidi";
import { parseState } from "../app/state";
import { titleOf } from "../heads/selection";
import { save } from "../saving/files";
import { useApp } from "../ui/context";
import { capital } from "../ui/status";
import { pageOf, storyIn } from "./page";
import { Presentation } from "./present";
import { StoryKeeper, type Step } from "./story";

// The place that a note is about, in words: the view, its head and its cell.
function placeOf(app: App): string {
  const { state } = app;
  const { answer } = app.overview();
  const head = ["head", "text", "pairs"].includes(state.view) && answer ? titleOf(app.selection(answer)) : "";
  const tokens = answer?.encoding.tokens ?? [];
  const [i, j] = state.pin;
  const cell =
    state.view === "head" && i !== undefined && j !== undefined && tokens[i] && tokens[j]
      ? `${tokens[i]} → ${tokens[j]}`
      : "";
  return [capital(state.view), head, cell].filter(Boolean).join(" · ");
}

async function stepOf(app: App, caption: string): Promise<Step> {
  const seen = app.state.view === "corpus" ? null : app.exportable();
  const picture = seen ? await (await import("../saving/export")).svgOf(seen).text() : "";
  return { view: new URL(app.address.href()).hash.slice(1), title: placeOf(app), caption, picture };
}

export function StoryMenu() {
  const app = useApp();
  const menu = useRef<HTMLDetailsElement>(null);
  const [story] = useState(() => new StoryKeeper());
  const [, draw] = useState(0);
  const [caption, setCaption] = useState("");
  const [presented, setPresented] = useState(-1);
  const [note, setNote] = useState("");
  const changed = (words: string): void => {
    setNote(words);
    draw((n) => n + 1);
  };
  const close = (): void => {
    if (menu.current) menu.current.open = false;
  };
  const open = ({ view }: Step): void => app.set(parseState(view).state, true);
  const add = async (): Promise<void> => {
    story.add(await stepOf(app, caption));
    setCaption("");
    changed(`Added step ${story.steps.length}`);
  };
  const load = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    const steps = storyIn(await file.text());
    if (steps.length) story.set(steps);
    changed(steps.length ? `Opened ${steps.length} steps` : "This file holds no story");
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    if (e.key !== "Escape" || presented >= 0) return;
    e.stopPropagation();
    close();
    menu.current?.querySelector("summary")?.focus();
  };
  useEffect(() => {
    const closeOutside = (e: PointerEvent): void => {
      if (menu.current && !menu.current.contains(e.target as Node)) menu.current.open = false;
    };
    document.addEventListener("pointerdown", closeOutside);
    return () => document.removeEventListener("pointerdown", closeOutside);
  }, []);
  const { steps } = story;
  return (
    <>
      <details class="story-menu" ref={menu} onKeyDown={onKeyDown}>
        <summary>Story{steps.length > 0 && ` ${steps.length}`}</summary>
        <div class="story-sheet">
          <label class="field">
            <span>Caption for this view</span>
            <textarea rows={2} value={caption} onInput={(e) => setCaption(e.currentTarget.value)} />
          </label>
          <div class="row">
            <button type="button" class="primary" onClick={() => void add()}>
              Add this view
            </button>
            <button type="button" disabled={!story.canUndo} onClick={() => (story.undo(), changed("Undone"))}>
              Undo
            </button>
          </div>
          <ol>
            {steps.map((step, n) => (
              <li key={n}>
                <input
                  type="text"
                  aria-label={`Title of step ${n + 1}`}
                  value={step.title}
                  onChange={(e) => (story.edit(n, { title: e.currentTarget.value }), changed(""))}
                />
                <textarea
                  rows={2}
                  aria-label={`Caption of step ${n + 1}`}
                  value={step.caption}
                  onChange={(e) => (story.edit(n, { caption: e.currentTarget.value }), changed(""))}
                />
                <div class="row">
                  <button
                    type="button"
                    onClick={() => open(step)}
                    title={escapeBidi(step.title)}
                    aria-label={`Show step ${n + 1}`}
                  >
                    Show
                  </button>
                  <button
                    type="button"
                    disabled={!n}
                    onClick={() => (story.swap(n - 1), changed(""))}
                    aria-label={`Move step ${n + 1} up`}
                  >
                    ↑
                  </button>
                  <button
                    type="button"
                    disabled={n + 1 === steps.length}
                    onClick={() => (story.swap(n), changed(""))}
                    aria-label={`Move step ${n + 1} down`}
                  >
                    ↓
                  </button>
                  <button
                    type="button"
                    onClick={() => (story.remove(n), changed(`Removed step ${n + 1}`))}
                    aria-label={`Remove step ${n + 1}`}
                  >
                    ×
                  </button>
                </div>
              </li>
            ))}
          </ol>
          <div class="row">
            <button type="button" disabled={!steps.length} onClick={() => (close(), setPresented(0))}>
              Present
            </button>
            <button
              type="button"
              disabled={!steps.length}
              onClick={() => {
                save(new Blob([pageOf(steps)], { type: "text/html;charset=utf-8" }), "headscope-story.html");
                changed("Saved headscope-story.html");
              }}
            >
              Save as HTML
            </button>
            <label class="opens">
              <input
                type="file"
                accept=".html,text/html"
                onChange={(e) => {
                  void load(e.currentTarget.files?.[0]);
                  e.currentTarget.value = "";
                }}
              />
              <span>Open…</span>
            </label>
          </div>
          <p role="status">{note}</p>
        </div>
      </details>
      {presented >= 0 && (
        <Presentation
          story={steps}
          at={presented}
          onMove={setPresented}
          onOpen={() => {
            const step = steps[presented];
            setPresented(-1);
            if (step) open(step);
          }}
          onEnd={() => setPresented(-1)}
        />
      )}
    </>
  );
}
