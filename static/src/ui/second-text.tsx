// The form of a second text beside the page's own, which it begins as a copy of.
import { useState } from "preact/hooks";
import { useApp } from "./context";
import { Field, isSubmit } from "./controls";
import type { Term } from "./explain";

export function SecondText({ label, action, help }: { label: string; action: string; help: Term }) {
  const app = useApp();
  const { text, pair, text2, pair2 } = app.state;
  const [draft, setDraft] = useState<{ text?: string; pair?: string }>({});
  const shown = text2 || text;
  const shownPair = text2 ? pair2 : pair;
  const submit = (e: Event): void => {
    e.preventDefault();
    app.set({ text2: draft.text ?? shown, pair2: draft.pair ?? shownPair }, true);
    setDraft({});
  };
  return (
    <form class="second-text" onSubmit={submit} onKeyDown={(e) => isSubmit(e) && submit(e)}>
      <Field label={label} help={help}>
        <textarea
          rows={4}
          dir="auto"
          spellcheck={false}
          aria-label="Second text"
          value={draft.text ?? shown}
          onInput={(e) => setDraft({ ...draft, text: e.currentTarget.value })}
        />
      </Field>
      {(pair || pair2) && (
        <Field label="Its second segment" help="segment">
          <textarea
            rows={4}
            dir="auto"
            spellcheck={false}
            aria-label="Second segment of the second text"
            value={draft.pair ?? shownPair}
            onInput={(e) => setDraft({ ...draft, pair: e.currentTarget.value })}
          />
        </Field>
      )}
      <button type="submit" class="primary">
        {action}
      </button>
    </form>
  );
}
