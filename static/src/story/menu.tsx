// The menu of the story: adds the view on screen, edits, presents and saves the steps.
import { useState } from "preact/hooks";
import type { App } from "../app/app";
import { escapeBidi } from "../app/bidi";
import { notedIn, stackNote } from "../app/stacks";
import { formatState, parseState } from "../app/state";
import { titleOf } from "../app/selection";
import { isOfOneHead, isOfText, nameOfView } from "../app/views";
import { counted } from "../app/words";
import { save } from "../saving/files";
import { offered } from "../saving/offer";
import { useApp } from "../ui/context";
import { useMenu } from "../ui/menu";
import { Button } from "../ui/controls";
import { pageOf, storyIn } from "./page";
import { Presentation } from "./present";
import { notesOn, type Note, type Step, storyOf } from "./story";

// The place that a step is about, in words: the view, its head and its cell.
function placeOf(app: App): string {
  const { state } = app;
  const { answer } = app.overview();
  const head = isOfOneHead(state.view) && answer ? titleOf(app.selection(answer)) + stackNote(state) : "";
  const tokens = answer?.encoding.tokens ?? [];
  const columns = answer?.source?.tokens ?? tokens;
  const [i, j] = state.pin;
  const cell =
    state.view === "head" && i !== undefined && j !== undefined && tokens[i] && columns[j]
      ? `${tokens[i]} → ${columns[j]}`
      : "";
  return [nameOfView(state.view), head, cell].filter(Boolean).join(" · ");
}

async function stepOf(app: App, caption: string): Promise<Step> {
  const seen = isOfText(app.state.view) ? offered() : null;
  const picture = seen ? await (await import("../saving/export")).svgOf(seen).text() : "";
  // With the head by its number, so that its notes are found.
  const { answer } = app.overview();
  const chosen = answer && isOfText(app.state.view) ? app.selection(answer) : {};
  return { view: formatState({ ...app.state, ...chosen }), title: placeOf(app), caption, picture };
}

// The notes on the head that a step shows.
function notesOf(app: App, { view }: Step): Note[] {
  const { state } = parseState(view);
  const model = app.modelName(state.model);
  return isOfOneHead(state.view) ? notesOn(storyOf(app).story, { ...state, ...notedIn(state, model) }) : [];
}

const FILE = "headscope-story.html";

function saveStory(app: App): void {
  const { story } = storyOf(app);
  const page = pageOf(
    story,
    story.steps.map((step) => notesOf(app, step)),
  );
  save(new Blob([page], { type: "text/html;charset=utf-8" }), FILE);
}

const FILE_MOST = 400 << 20; // bytes: the largest story with each picture twice

export function StoryMenu() {
  const app = useApp();
  const { menu, close, onKeyDown } = useMenu();
  const story = storyOf(app);
  const [caption, setCaption] = useState("");
  const [presented, setPresented] = useState(-1);
  const [note, setNote] = useState("");
  const open = ({ view }: Step): void => app.set(parseState(view).state, true);
  const add = async (): Promise<void> => {
    const step = await stepOf(app, caption).catch(() => null);
    if (!step) return setNote("The picture’s code did not come. Reload the page and add the view again.");
    story.add(step);
    setCaption("");
    setNote(`Added step ${story.story.steps.length}`);
  };
  const load = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    if (file.size > FILE_MOST) return setNote("This file is too large to be a story");
    const page = await file.text().catch(() => null); // it may be gone, or be a folder
    if (page === null) return setNote("This file cannot be read");
    const opened = storyIn(page);
    const some = opened.steps.length + opened.notes.length > 0;
    if (some) story.set(opened);
    setNote(
      some
        ? `Opened ${counted(opened.steps.length, "step")} and ${counted(opened.notes.length, "note")}`
        : "This file holds no story",
    );
  };
  const { steps, notes } = story.story;
  const empty = steps.length + notes.length === 0;
  return (
    <>
      <details class="story-menu" ref={menu} onKeyDown={(e) => presented < 0 && onKeyDown(e)}>
        <summary>Story{steps.length > 0 && ` ${steps.length}`}</summary>
        <div class="story-sheet">
          <label class="field">
            <span>Caption for this view</span>
            <textarea rows={2} dir="auto" value={caption} onInput={(e) => setCaption(e.currentTarget.value)} />
          </label>
          <div class="row">
            <Button class="primary" onClick={() => void add()}>
              Add this view
            </Button>
            <Button disabled={!story.canUndo} onClick={() => (story.undo(), setNote("Undone"))}>
              Undo
            </Button>
          </div>
          <ol>
            {steps.map((step, n) => (
              <OneStep
                key={n}
                n={n}
                step={step}
                last={n + 1 === steps.length}
                onShow={() => open(step)}
                onRemove={() => (story.remove(n), setNote(`Removed step ${n + 1}`))}
              />
            ))}
          </ol>
          <div class="row">
            <Button disabled={!steps.length} onClick={() => (close(), setPresented(0))}>
              Present
            </Button>
            <Button disabled={empty} onClick={() => (saveStory(app), setNote(`Saved ${FILE}`))}>
              Save as HTML
            </Button>
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
          {notes.length > 0 && (
            <p class="muted">{`Saved with the story: ${counted(notes.length, "note")} on heads and cells.`}</p>
          )}
          <p role="status">{note}</p>
        </div>
      </details>
      {presented >= 0 && (
        <Presentation
          story={steps}
          notes={steps[presented] ? notesOf(app, steps[presented]) : []}
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

function OneStep(props: { n: number; step: Step; last: boolean; onShow: () => void; onRemove: () => void }) {
  const story = storyOf(useApp());
  const { n, step, last } = props;
  const name = `step ${n + 1}`;
  return (
    <li>
      <input
        type="text"
        dir="auto"
        aria-label={`Title of ${name}`}
        value={step.title}
        onChange={(e) => story.edit(n, { title: e.currentTarget.value })}
      />
      <textarea
        rows={2}
        dir="auto"
        aria-label={`Caption of ${name}`}
        value={step.caption}
        onChange={(e) => story.edit(n, { caption: e.currentTarget.value })}
      />
      <div class="row">
        <Button onClick={props.onShow} title={escapeBidi(step.title)} aria-label={`Show ${name}`}>
          Show
        </Button>
        <Button disabled={!n} onClick={() => story.swap(n - 1)} aria-label={`Move ${name} up`}>
          ↑
        </Button>
        <Button disabled={last} onClick={() => story.swap(n)} aria-label={`Move ${name} down`}>
          ↓
        </Button>
        <Button onClick={props.onRemove} aria-label={`Remove ${name}`}>
          ×
        </Button>
      </div>
    </li>
  );
}
