// Opens a file of attention arrays: a dialog with the file chooser, and files dropped on the page. While one is open, a
// card stands in the place of the text.
import { useState } from "preact/hooks";
import { escapeBidi } from "../app/bidi";
import { fileName } from "../app/sources";
import { useApp } from "../ui/context";
import { Button, Field } from "../ui/controls";
import { closeDialog, Dialog, openDialog } from "../ui/dialog";
import { Notice } from "../ui/status";
import { nameOfView } from "../app/views";
import { capital } from "../app/words";
import { closeFile, isOpenable, missingOf, openedIn, openFile } from "./files";
import type { OpenedFile } from "./opened-file";

const ID = "open-file";

export const openFiles = (): void => openDialog(ID);

let take: (file: File | undefined) => Promise<void> = async () => {}; // of the dialog, which also shows what went wrong

const RECIPE = `np.savez("attentions.npz",
  tokens=tokenizer.convert_ids_to_tokens(inputs.input_ids[0]),
  attentions=np.stack([a[0].numpy() for a in out.attentions]))`;

export function OpenDialog() {
  const app = useApp();
  const [reading, setReading] = useState("");
  const [problem, setProblem] = useState("");
  take = async (file) => {
    if (!file) return;
    setProblem("");
    setReading(file.name);
    try {
      await openFile(app, file);
      closeDialog(ID);
    } catch (error) {
      setProblem(capital(error instanceof Error ? error.message : String(error)));
      openFiles();
    } finally {
      setReading("");
    }
  };
  return (
    <Dialog id={ID} label="Open a file" class="opening" onClose={() => setProblem("")}>
      <p>
        Attention that another program computed, of any model: an <code>.npz</code> or <code>.safetensors</code> file.
        It stays in this page and is not sent to the server. A file can also be dropped on the page.
      </p>
      <Field label="File">
        <input
          type="file"
          accept=".npz,.safetensors"
          onChange={(e) => {
            const input = e.currentTarget;
            void take(input.files?.[0]).finally(() => (input.value = ""));
          }}
        />
      </Field>
      {reading && <p role="status">Reading {escapeBidi(reading)}…</p>}
      {problem && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      <p>
        From transformers, with <code>out = model(**inputs, output_attentions=True)</code>:
      </p>
      <pre tabIndex={0} role="region" aria-label="Python">
        {RECIPE}
      </pre>
      <p class="muted">
        Similarities need <code>head_outputs</code>, [layers][heads][tokens][d], as well.
      </p>
    </Dialog>
  );
}

export const OpenButton = () => (
  <Button class="link" onClick={openFiles} title="Attention arrays of another program">
    Open a file…
  </Button>
);

// Opens a file that is dropped outside of a form that takes one. Returns false if it is none of arrays.
export function takeDropped(e: DragEvent): boolean {
  const file = e.dataTransfer?.files[0];
  if (!file || !isOpenable(file)) return false;
  void take(file);
  return true;
}

const tokensOf = ({ encoding, source }: OpenedFile): string =>
  `${encoding.ids.length} tokens${source ? ` of the target × ${source.ids.length} of the text` : ""}`;

export function FileCard() {
  const app = useApp();
  const file = openedIn(app.state);
  return (
    <section class="file-card" aria-label="Opened file">
      <h2>{escapeBidi(fileName(app.state.model))}</h2>
      {file && (
        <>
          <p>
            {`${file.layers} × ${file.heads} heads, ${tokensOf(file)}`}
            {file.encoding.causal && ", causal"}
          </p>
          <ul class="muted">
            {file.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </>
      )}
      <div class="actions">
        <Button onClick={openFiles}>Open another…</Button>
        <Button onClick={() => closeFile(app)}>Close the file</Button>
      </div>
    </section>
  );
}

// Stands in the place of a view that has nothing to show of the file.
export function NotOfFile() {
  const app = useApp();
  return (
    <section class="view" aria-label={nameOfView(app.state.view)}>
      <Notice title="Not in the file">
        <p>{missingOf(app.state)}</p>
        <Button class="primary" onClick={() => closeFile(app)}>
          Back to the model
        </Button>
      </Notice>
    </section>
  );
}
