// Where answers come from: the server, or a file whose arrays are in the page. A file's model has a name that no served
// one can have.
import type { Answer, JsonAnswer } from "./answer";
import { analyze as analyzeOnServer, readJson as readJsonOnServer, Problem, type Progress } from "./api";
import { perObject } from "./per-object";
import type { AnalyzeRequest } from "./requests";
import type { Stack, State } from "./state";

const FILE = "file:"; // and its name

export const isFile = (model: string | undefined): boolean => model?.startsWith(FILE) ?? false;
export const fileModel = (name: string): string => FILE + name;
export const fileName = (model: string): string => model.slice(FILE.length);

// The contents of a file, as far as views ask before they draw.
interface FileFacts {
  text: string;
  target: string; // of cross heads
  stack: Stack;
  similarities: boolean;
}
interface FileSource {
  facts(model: string): FileFacts | null; // null: not opened yet
  analyze(request: AnalyzeRequest, signal: AbortSignal): Promise<Answer>;
}
let files: FileSource | null = null;
export const readFilesBy = (source: FileSource): void => void (files = source);

const fileFacts = (model: string): FileFacts | null => (isFile(model) ? (files?.facts(model) ?? null) : null);

// False for a file without outputs of heads: it has no similarities.
export const hasSimilarities = ({ model }: Pick<State, "model">): boolean => fileFacts(model)?.similarities ?? true;

// The state as far as a file can follow it: its own text, and only measures of the arrays that it has.
const followed = perObject((state: State): State => {
  const facts = fileFacts(state.model);
  if (!facts) return state;
  const { show, relation, overlay, what } = state;
  return {
    ...state,
    ...{
      text: facts.text,
      pair: "",
      prompt: "",
      stack: facts.stack,
      target: facts.target,
      write: 0,
      max: 0,
      window: -1,
      literal: false,
      weigh: false,
      space: "head",
      loss: false,
      attribution: "none",
    },
    ...(facts.similarities
      ? {}
      : {
          show: show === "attention" ? show : "attention",
          relation: relation === "similar" ? "to" : relation,
          overlay: overlay === "pairs" || overlay === "regions" ? "none" : overlay,
          what: what === "attention" ? what : "attention",
          center: false,
          bands: false,
        }),
  };
});
export const withinFile = (state: State): State => (fileFacts(state.model) ? followed(state) : state);

export const lacking = (what: string): Problem =>
  new Problem(422, "Not in the file", `${what} needs the model; the file has arrays of one text.`);

export const analyze = (
  request: AnalyzeRequest,
  signal: AbortSignal,
  onprogress: (progress: Progress) => void,
): Promise<Answer> =>
  isFile(request.model) && files ? files.analyze(request, signal) : analyzeOnServer(request, signal, onprogress);

export const readJson = (request: AnalyzeRequest, signal: AbortSignal): Promise<JsonAnswer> =>
  isFile(request.model) ? Promise.reject(lacking("This")) : readJsonOnServer(request, signal);
