// Activation patching from a second text: how much of its result each head restores, or the state of each token after
// each layer. The result is one number, a logit for example.
import type { Answer, JsonAnswer } from "../../app/answer";
import type { App } from "../../app/app";
import { escapeBidi } from "../../app/bidi";
import { factsOf } from "../../app/model-facts";
import { stackOf } from "../../app/stacks";
import type { Entry } from "../../app/cache";
import {
  patchedEffectsRequest,
  patchMapRequest,
  predictionRequest,
  sourcePatchMapRequest,
  type AnalyzeRequest,
  type Requested,
  type Patch,
} from "../../app/requests";
import type { Axis } from "../../maps/analysis";
import { lutOf, tinted } from "../../maps/colour";
import { ColourBar } from "../../maps/colour-bar";
import { linearBar, placesUpTo } from "../../maps/linear";
import { percent } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { LevelColumns } from "../../ui/levels";
import { StateDisclosure } from "../../ui/state-controls";
import { Notice, statusOf } from "../../ui/status";
import { rowsOf, type Effects } from "../../passes/effects";
import { mostOf, placeOf } from "../../passes/outcome";
import type { Target } from "../../passes/target";

export interface Patching {
  patch: Patch;
  words: string; // the number followed
  tlang: string; // the target's language, as far as its ids do not have it
  sources: number | null; // tokens of the second text, if a decoder reads it
}

type Followed = Pick<Patching, "patch" | "words">;
type Sought = Patching | { refusal: string } | { waiting: Entry<JsonAnswer> };

const quoted = (token: string): string => `“${escapeBidi(token)}”`;

// Null where patching is not what makes routes strong.
export function patchingOf(app: App, answer: Answer, at: number, target: Target | null): Sought | null {
  const { state } = app;
  if (state.weight !== "patch") return null;
  if (!state.text2)
    return { refusal: "Write the second text above, then click Trace. It begins as a copy of the first." };
  // The decoder reads the same target with both texts, also one that the model wrote of the first.
  const reads = stackOf(state) === "encoder" ? {} : { target_ids: answer.encoding.ids.slice(1) };
  const from = { text: state.text2, ...(state.pair2 ? { text_pair: state.pair2 } : {}), ...reads };
  if (from.text === state.text && (from.text_pair ?? "") === state.pair)
    return { refusal: "Both texts are the same. Change a word of the second one." };
  // Ids have the target's language among them, except for a decoder that starts with it.
  const starts = factsOf(state.model)?.languages.includes(answer.encoding.tokens[0] ?? "");
  const tlang = "target_ids" in reads && !starts ? "" : state.tlang;
  const other: Requested = { ...state, ...reads, tlang, text: from.text, pair: state.pair2 };
  const tokens = app.jsonCache.want(predictionRequest(other, -1, 0));
  if (!tokens.answer) return { waiting: tokens };
  const [here, there] = [answer.encoding.ids.length, tokens.answer.tokens.length];
  if (here !== there)
    return {
      refusal: `The second text has ${there} tokens, the first one ${here}. Patching goes position by position, so both need the same number: replace words by others of as many tokens.`,
    };
  const followed = target
    ? { patch: { from, target: target.request }, words: target.words }
    : ofPredictions(app, answer, at, from, other);
  if (!("patch" in followed)) return followed;
  const sources = stackOf(state) === "encoder" ? null : (tokens.answer.source_tokens?.length ?? 0);
  return { ...followed, tlang, sources };
}

// The difference of the two likeliest tokens; the logit of one if both texts agree on it.
function ofPredictions(
  app: App,
  answer: Answer,
  at: number,
  from: Patch["from"],
  other: Requested,
): Followed | Exclude<Sought, Patching> {
  const most = mostOf(app);
  if (!most) return { refusal: "This model predicts no tokens or classes, so there is no result to restore." };
  const requested = [app.state, other].map((state) => app.jsonCache.want(predictionRequest(state, at, most)));
  const waiting = requested.find((entry) => !entry.answer);
  if (waiting) return { waiting };
  const [is, was] = requested.map((entry) => entry.answer?.predictions?.[0]?.top[0]);
  if (!is || !was) return { refusal: "The model predicts nothing at this token." };
  const place = placeOf(answer, at).replace(/^A/, "a");
  return is.id === was.id
    ? { patch: { from, target: { token: is.id, position: at } }, words: `the logit of ${quoted(is.token)} ${place}` }
    : {
        patch: { from, target: { tokens: [was.id, is.id], position: at } },
        words: `the logit of ${quoted(was.token)} minus that of ${quoted(is.token)} ${place}`,
      };
}

// Each head patched alone, layer by layer.
export const patchedEffects = (app: App, requested: Requested, answer: Answer, { patch }: Patching): Effects =>
  rowsOf(app, answer, (layer) => patchedEffectsRequest(requested, [layer], patch));

export function PatchNote({ of }: { of: Patching }) {
  return (
    <p class="muted">
      Followed: {of.words}. Each head’s output is replaced by that of the second text; 100 % restores the second text’s
      result, below 0 leads away from it. Routes are strong by its size.
    </p>
  );
}

// The state of one token after one layer, patched alone: a row a token, a column a layer. A decoder's maps include
// one of the text that it reads, if both texts have as many tokens.
export function PatchMaps({ of, axis, source }: { of: Patching; axis: Axis; source: Axis | null }) {
  const { state } = useApp();
  return (
    <>
      <PatchMap
        field="patchmap"
        title={`Restored by each ${of.sources === null ? "" : "target "}token’s state, layer by layer`}
        request={patchMapRequest(state, of.patch)}
        axis={axis}
      />
      {of.sources !== null && source && (
        <PatchMap
          field="patchtext"
          title="Restored by the state of each token of the text, layer by layer of the encoder"
          request={sourcePatchMapRequest({ ...state, tlang: of.tlang }, of.patch)}
          axis={source}
          refusal={
            of.sources === source.n
              ? undefined
              : `The second text has ${of.sources} tokens, the first one ${source.n}. The encoder’s states are patched position by position, so both need the same number.`
          }
        />
      )}
    </>
  );
}

interface PatchMapProps {
  field: "patchmap" | "patchtext";
  title: string;
  request: AnalyzeRequest;
  axis: Axis;
  refusal?: string;
}

function PatchMap({ field, title, request, axis, refusal }: PatchMapProps) {
  const app = useApp();
  const entry = app.state[field] && !refusal ? app.jsonCache.want(request) : null;
  const map = entry?.answer?.patch_map;
  return (
    <StateDisclosure field={field} title={title}>
      {refusal && <Notice>{refusal}</Notice>}
      {entry && !map && statusOf(app, entry)}
      {map && <PatchTable map={map} axis={axis} label={title} />}
    </StateDisclosure>
  );
}

function PatchTable(props: { map: readonly (readonly (number | null)[])[]; axis: Axis; label: string }) {
  const { map, axis, label } = props;
  const { state, theme } = useApp();
  const top = Math.max(0, ...map.flat().map((v) => Math.abs(v ?? 0)));
  const lut = lutOf(state.map, "difference", theme);
  const place = placesUpTo(top, true);
  const cell = (value: number | null | undefined, level: number) => {
    if (value === null || value === undefined) return <td key={level}>–</td>;
    return (
      <td key={level} style={tinted(lut, place(value))}>
        {String(Math.round(100 * value)).replace("-", "−")}
      </td>
    );
  };
  return (
    <>
      <ColourBar {...linearBar("Restored", lut, top, true)} />
      <div class="scroll patch-map" tabIndex={0} role="region" aria-label={label}>
        <table>
          <caption>
            Part of the second text’s result that one state restores, in per cent: the state of one token after one
            layer, replaced by the second text’s
          </caption>
          <LevelColumns levels={map.length} />
          <tbody>
            {axis.labels.map((token, t) => (
              <tr key={t}>
                <th scope="row">
                  {token} <small>{t}</small>
                </th>
                {map.map((row, level) => cell(row[t], level))}
              </tr>
            ))}
          </tbody>
        </table>
        <p class="hidden">The strongest state restores {percent(top)}.</p>
      </div>
    </>
  );
}
