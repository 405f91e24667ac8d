// The files that are open in this page: from the file chooser, dropped, or offered by `headscope view`.
import type { Answer } from "../app/answer";
import { asProblem, Problem, send } from "../app/api";
import type { App } from "../app/app";
import { escapeBidi } from "../app/bidi";
import { fileModel, fileName, isFile, readFilesBy } from "../app/sources";
import type { State } from "../app/state";
import { isOfText } from "../app/views";
import type { OpenedFile } from "./opened-file";

const KEPT = 2; // the file before can be gone back to
const NAME_MAX = 200;

const opened = new Map<string, OpenedFile>(); // by model, the latest last

export const openedIn = ({ model }: Pick<State, "model">): OpenedFile | null => opened.get(model) ?? null;

function keep(model: string, file: OpenedFile): OpenedFile {
  opened.delete(model);
  opened.set(model, file);
  for (const oldest of [...opened.keys()].slice(0, -KEPT)) opened.delete(oldest);
  return file;
}

async function read(name: string, file: Blob): Promise<OpenedFile> {
  const { openedFile } = await import("./opened-file");
  return openedFile(name, file);
}

// The file that `headscope view` was started with has this name, or there is none.
async function offered(model: string, signal: AbortSignal): Promise<OpenedFile> {
  const name = fileName(model);
  const response = await send(`opened/${encodeURIComponent(name)}`, { signal }).catch((error: unknown) => {
    if (!(error instanceof Problem && error.status === 404)) throw error;
    const words = `“${escapeBidi(name)}” was opened in another page, which keeps nothing. Open it again.`;
    throw new Problem(0, "The file is not open", words);
  });
  const file = await read(name, await response.blob()).catch((error: unknown) => {
    throw new Problem(0, "The file cannot be shown", asProblem(error).message);
  });
  return keep(model, file);
}

readFilesBy({
  facts(model) {
    const file = opened.get(model);
    if (!file) return null;
    const { text, target, source, width } = file;
    return { text, target, stack: source ? "cross" : "encoder", similarities: width > 0 };
  },
  async analyze(request, signal): Promise<Answer> {
    const model = request.model ?? "";
    const known = opened.get(model);
    const file = known ?? (await offered(model, signal));
    const { answerOf } = await import("./file-answers");
    return answerOf(file, known ? request : { ...request, text: file.text }, signal); // until now its text was not known
  },
});

const FRESH = { sha: "", center: false, layer: -1, head: 0, beside: [], seek: "", only: "all" } as const;

// Reads the file and shows it. Throws an error in words if it cannot be shown.
export async function openFile(app: App, file: File): Promise<void> {
  const name = file.name.slice(-NAME_MAX);
  const model = fileModel(name);
  const { layers, heads } = keep(model, await read(name, file));
  app.forget();
  const { view } = app.state;
  const seen = ["overview", "head", "text"].includes(view) ? view : "overview";
  app.read({ ...FRESH, model, view: seen });
  app.announce(`Opened ${escapeBidi(name)}: ${layers} × ${heads} heads`, true);
}

// Back to the server's first model and the text before.
export const closeFile = (app: App): void => app.read({ ...FRESH, model: app.models[0]?.name ?? "" });

const OPENABLE = /\.(npz|safetensors)$/i;
export const isOpenable = ({ name }: Pick<File, "name">): boolean => OPENABLE.test(name);

// Why the view shows nothing of the file, in one sentence; "" if it does.
export function missingOf({ model, view }: State): string {
  const file = opened.get(model);
  if (!isFile(model) || !isOfText(view)) return "";
  if (view === "experiment" || view === "trace")
    return "This view runs the model. The file has arrays of one text, so there is nothing to run.";
  if (view === "compare" && file?.source && file.width === 0)
    return "Cross heads are compared by similarities. They need the outputs of the heads, and the file has no “head_outputs”.";
  if (view === "pairs" && file?.width === 0)
    return "Pairs are of similarities. They need the outputs of the heads, and the file has no “head_outputs”.";
  return "";
}
