// Steps through a text that is longer than what the model is given at once, window by window.
import type { App } from "../app/app";
import { isFile } from "../app/sources";
import { stackOf, writtenOf } from "../app/stacks";
import { predictionRequest } from "../app/requests";
import { useApp } from "./context";

interface Steps {
  at: number; // number of the window, from 0; -1: the text is cut off at another place
  n: number;
}

// Null for a text that is not cut, or that has no windows.
function stepsOf(app: App): Steps | null {
  const { state } = app;
  const { answer } = app.overview();
  if (state.window >= 0) return { at: state.window, n: answer?.windows || state.window + 1 };
  const prompt = state.prompt || `=${app.model()?.default_prompt_name ?? ""}`;
  if (stackOf(state) !== "encoder" || writtenOf(state)) return null; // the service has windows of one text alone
  if (!answer?.truncated || prompt !== "=" || isFile(state.model)) return null;
  const first = app.jsonCache.want(predictionRequest({ ...state, window: 0 }, -1, 0)).answer;
  if (!first?.windows) return null;
  // A text that is cut off at its end is its first window.
  const { ids } = answer.encoding;
  const same = ids.length === first.input_ids.length && ids.every((id, t) => id === first.input_ids[t]);
  return { at: same ? 0 : -1, n: first.windows };
}

// To the window before or after, if there is one.
export function toWindow(app: App, by: number): void {
  const steps = stepsOf(app);
  const to = steps ? steps.at + by : -1;
  if (steps && to >= 0 && to < steps.n) app.read({ window: to });
}

export function WindowSteps() {
  const app = useApp();
  const steps = stepsOf(app);
  if (!steps) return null;
  const { at, n } = steps;
  const button = (by: number, name: string, sign: string, key: string) => (
    <button
      type="button"
      aria-label={`${name} window`}
      title={`${name} window (${key})`}
      disabled={at + by < 0 || at + by >= n}
      onClick={() => toWindow(app, by)}
    >
      {sign}
    </button>
  );
  return (
    <div class="windows" role="toolbar" aria-label="Windows of the text">
      {button(-1, "Previous", "‹", "<")}
      <span role="status">{at < 0 ? `Cut off; it has ${n} windows` : `Window ${at + 1} of ${n}`}</span>
      {button(1, "Next", "›", ">")}
    </div>
  );
}
