// The notes on the head on screen and on cells of its maps: written, edited, removed, and shown again with the head.
import { useState } from "preact/hooks";
import { escapeBidi } from "../app/bidi";
import { notedIn, stackNote } from "../app/stacks";
import { titleOf, type Selection } from "../app/selection";
import { useApp } from "../ui/context";
import { Button, Disclosure, Field, isSubmit, Segmented } from "../ui/controls";
import { notesOn, type Note, storyOf } from "./story";

export interface PinnedCell {
  at: readonly [query: number, key: number]; // token positions
  about: string;
}

export function Notes({ selection, cell }: { selection: Selection; cell: PinnedCell | null }) {
  const app = useApp();
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<boolean | null>(null); // null: if there are notes
  const [onCell, setOnCell] = useState(true);
  const of = { ...selection, ...notedIn(app.state, app.modelName()) };
  const notes = notesOn(storyOf(app).story, of);
  const place = titleOf(selection) + stackNote(app.state);
  const about = cell && onCell ? `${place}, ${cell.about}` : place;
  const add = (e: Event): void => {
    e.preventDefault();
    if (!words.trim()) return;
    const { model, layer, head, text, pair } = of;
    storyOf(app).addNote({
      model,
      layer,
      head,
      cell: cell && onCell ? { text, pair, at: cell.at } : null,
      about,
      words,
    });
    setWords("");
    app.announce(`Added a note on ${about}`, true);
  };
  return (
    <Disclosure
      title={notes.length ? `Notes (${notes.length})` : "Write a note"}
      open={open ?? notes.length > 0}
      onToggle={() => setOpen(!(open ?? notes.length > 0))}
    >
      <section class="notes" aria-label="Notes">
        <ul>
          {notes.map((note, n) => (
            <OneNote key={n} note={note} />
          ))}
        </ul>
        <form onSubmit={add} onKeyDown={(e) => isSubmit(e) && add(e)}>
          {cell && (
            <Segmented
              label="Note on"
              help="note"
              value={onCell ? "cell" : "head"}
              choices={[
                { value: "cell", label: escapeBidi(cell.about) },
                { value: "head", label: "the head" },
              ]}
              onChange={(value) => setOnCell(value === "cell")}
            />
          )}
          <Field label="New note" help="note">
            <textarea rows={2} dir="auto" value={words} onInput={(e) => setWords(e.currentTarget.value)} />
          </Field>
          <div class="row">
            <button type="submit" disabled={!words.trim()}>
              Add the note
            </button>
            <Button
              disabled={!storyOf(app).canUndo}
              onClick={() => storyOf(app).undo()}
              title="Undo the last edit of the story or its notes"
            >
              Undo
            </Button>
          </div>
        </form>
      </section>
    </Disclosure>
  );
}

function OneNote({ note }: { note: Note }) {
  const app = useApp();
  const about = escapeBidi(note.about);
  const { cell } = note;
  return (
    <li>
      <div class="row">
        {cell ? (
          <Button class="link" onClick={() => app.pin(cell.at)}>
            {about}
          </Button>
        ) : (
          <strong>{about}</strong>
        )}
        <Button class="icon" aria-label={`Remove the note on ${about}`} onClick={() => storyOf(app).removeNote(note)}>
          ×
        </Button>
      </div>
      <textarea
        rows={2}
        dir="auto"
        aria-label={`Note on ${about}`}
        value={note.words}
        onChange={(e) => storyOf(app).editNote(note, e.currentTarget.value)}
      />
    </li>
  );
}
