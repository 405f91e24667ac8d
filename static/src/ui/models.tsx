// A dialog of the served models: fetch one by its name on the hub, load one again, remove one.
import { useEffect, useState } from "preact/hooks";
import type { Model } from "../../../build/openapi";
import { asProblem, cancelPull, fetchModel, isUnderWay, lastPull, models, removeModel, type Pull } from "../app/api";
import { escapeBidi } from "../app/bidi";
import { useApp } from "./context";
import { Button, Field } from "./controls";
import { Dialog, openDialog } from "./dialog";
import { capital, megabytes } from "../app/words";

const ID = "models";
const POLL_MS = 400;

export function ModelsButton() {
  const [open, setOpen] = useState(false);
  const show = (): void => {
    setOpen(true);
    openDialog(ID);
  };
  return (
    <>
      <Button class="link" onClick={show}>
        More models…
      </Button>
      <Dialog id={ID} label="Models" class="models" onClose={() => setOpen(false)}>
        {open && <Models />}
      </Dialog>
    </>
  );
}

function promptsOf({ prompts }: Model): string {
  const names = Object.keys(prompts);
  return names.length ? `, prompts: ${names.map(escapeBidi).join(", ")}` : "";
}

function Models() {
  const app = useApp();
  const [pull, setPull] = useState<Pull | null | undefined>(); // undefined: not known yet
  const [problem, setProblem] = useState("");
  const [name, setName] = useState("");
  const learn = async (): Promise<void> => {
    app.forget();
    app.learn(await models());
    app.draw();
  };
  // Runs a request; a refusal is shown in words.
  const run = async (act: () => Promise<unknown>): Promise<void> => {
    setProblem("");
    try {
      await act();
    } catch (error) {
      setProblem(asProblem(error).message);
    }
  };
  useEffect(() => {
    void run(async () => setPull(await lastPull()));
  }, []);
  const active = Boolean(pull && isUnderWay(pull));
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => {
      void run(async () => {
        const next = await lastPull();
        setPull(next);
        if (next?.state === "done") await learn();
      });
    }, POLL_MS);
    return () => clearInterval(timer);
  }, [active]);
  const ask = (name: string): void => void run(async () => setPull(await fetchModel(name)));
  const remove = (model: string): void =>
    void run(async () => {
      await removeModel(model);
      if (app.modelName() === model) app.takeModel("");
      await learn();
    });
  if (pull === undefined) return problem ? <p class="error">{problem}</p> : <p class="muted">…</p>;
  return (
    <>
      <ul class="model-list">
        {app.models.map((model, n) => (
          <li key={model.name}>
            <Button class="link" onClick={() => app.takeModel(model.name)}>
              {model.name}
            </Button>
            <span class="muted">
              {model.type}, {model.num_layers} × {model.num_heads} heads, {(model.weight_bytes / 1e6).toFixed(0)} MB
              {promptsOf(model)}
            </span>
            {pull && n > 0 && (
              <Button disabled={active} onClick={() => remove(model.name)} aria-label={`Remove ${model.name}`}>
                Remove
              </Button>
            )}
          </li>
        ))}
      </ul>
      {pull ? (
        <form
          class="fetch"
          onSubmit={(e) => {
            e.preventDefault();
            ask(name.trim());
          }}
        >
          <Field label="Name on the HuggingFace hub, or of a model to load again" help="model">
            <input
              type="text"
              value={name}
              placeholder="google-bert/bert-base-uncased"
              spellcheck={false}
              autocomplete="off"
              onInput={(e) => setName(e.currentTarget.value)}
            />
          </Field>
          <button type="submit" class="primary" disabled={active || !name.trim()}>
            Fetch
          </button>
        </form>
      ) : (
        <p class="muted">
          This server keeps the models that it was started with. Started with <code>headscope serve --pull</code>, it
          fetches models by name.
        </p>
      )}
      {pull && pull.state !== "none" && <PullProgress pull={pull} onCancel={() => void run(cancelPull)} />}
      {problem && (
        <p class="error" role="alert">
          {capital(problem)}
        </p>
      )}
    </>
  );
}

function PullProgress({ pull, onCancel }: { pull: Pull; onCancel: () => void }) {
  const { state, name, model, file, file_bytes, file_bytes_done, error } = pull;
  return (
    <div class="pull" role="status">
      {state === "downloading" && (
        <>
          <p>
            Fetching {name}
            {file && `: ${file}, ${megabytes(file_bytes_done)} of ${megabytes(file_bytes)} MB`}
          </p>
          <progress max={file_bytes || 1} value={file_bytes_done} aria-label="Received of this file" />
        </>
      )}
      {state === "loading" && (
        <>
          <p>Loading {name}…</p>
          <progress aria-label="Loading" />
        </>
      )}
      {state === "done" && <p>{model} is served.</p>}
      {state === "cancelled" && <p>Cancelled. The next fetch goes on where this one ended.</p>}
      {state === "failed" && <p class="error">Not fetched: {error}</p>}
      {isUnderWay(pull) && <Button onClick={onCancel}>Cancel</Button>}
    </div>
  );
}
