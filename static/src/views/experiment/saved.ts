// Saves an experiment: the switches, predictions and maps on screen as a picture, their figures as a table, and the
// requests of both passes.
import type { Prediction } from "../../../../build/openapi";
import type { Answer, JsonAnswer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Selection } from "../../heads/selection";
import { madeOf } from "../../saving/provenance";
import { cssOf, inkOn } from "../../maps/colour";
import type { Exportable } from "../../saving/export";
import type { Tint } from "../../heads/tint";
import { doesOf, inWords, signOf, type Edit } from "./interventions";
import { guessesOf } from "./guesses";
import { savedRequest, type AnalyzeRequest, type Asked } from "../../app/requests";
import { percent } from "../../maps/scale";
import { pictureOf, type Ink, type Picture, type Plate, type Surface } from "../../saving/surface";
import { escapeBidi } from "../../app/bidi";

interface Parts {
  answer: Answer;
  outcome: { before: JsonAnswer; after: JsonAnswer | null; edits: readonly Edit[] };
  selection: Selection;
  tint: Tint | null;
  lens: readonly Prediction[]; // none, before alone, or both sides
  plates: readonly Plate[];
}

export function experimentExport(
  app: App,
  parts: Parts,
  changed: Asked,
  { at, most }: { at: number; most: number },
  name: string,
): Exportable {
  const { selection, answer, outcome, lens } = parts;
  const ask = (asked: Asked): AnalyzeRequest => ({
    ...savedRequest(asked, [selection.layer], selection.head, [
      ...(["attentions", "similarities", "head_outputs", "hidden_states"] as const),
      ...(most ? (["predictions"] as const) : []),
    ]),
    ...(most
      ? { predictions: { positions: at < 0 ? ("masked" as const) : [at], top_k: most, lens: lens.length > 0 } }
      : {}),
  });
  const made = madeOf(app, answer, name, ask(app.state));
  const second = outcome.edits.length ? { second: ask(changed) } : {};
  return {
    ...made,
    provenance: { ...made.provenance, ...second },
    picture: pictureOf(parts.plates, made.title, above(parts)),
    rows: () => rowsOf(parts),
  };
}

// Long: one figure a row.
function rowsOf({ outcome: { before, after, edits }, answer, tint, lens }: Parts): (string | number)[][] {
  const rows: (string | number)[][] = [["figure", "layer", "head", "position", "token", "before", "after"]];
  for (const edit of edits) rows.push([`intervention: ${doesOf(edit)}`, edit.layer, edit.head, "", "", "", ""]);
  const { tokens } = answer.encoding;
  for (const one of before.predictions ?? []) {
    const other = after?.predictions?.find(({ position }) => position === one.position) ?? null;
    for (const { token, before: was, after: is } of guessesOf(one, other, one.top.length))
      rows.push(["probability", "", "", one.position, token, was?.probability ?? "", is?.probability ?? ""]);
  }
  const { changes } = after ?? {};
  for (const name of ["attentions", "similarities"] as const)
    changes?.[name].forEach((row, l) =>
      row.forEach((value, h) => rows.push([`change of ${name}`, l, h, "", "", "", value ?? ""])),
    );
  changes?.hidden.forEach((row, l) =>
    row.forEach((value, t) => rows.push(["change of state", l - 1, "", t, tokens[t] ?? "", "", value ?? ""])),
  );
  lens.forEach(({ position, layers = [] }, side) =>
    layers.forEach(({ top }, l) =>
      top.forEach(({ token, probability }) =>
        rows.push([
          "lens: probability",
          l - 1,
          "",
          position,
          token,
          ...(side ? ["", probability ?? ""] : [probability ?? "", ""]),
        ]),
      ),
    ),
  );
  const effects = tint && !/^Change/.test(tint.bar.label) ? tint.values : [];
  effects.forEach((row, l) =>
    row.forEach((value, h) => rows.push([tint?.bar.label.toLowerCase() ?? "", l, h, "", "", "", value ?? ""])),
  );
  return rows;
}

const CELL = 30,
  HIGH = 20,
  SIDE = 34,
  LINE = 18,
  COLUMN = 330;

// Above the maps: the switches, and beside them the predictions.
function above({ answer, outcome, tint, lens }: Parts): Picture {
  const { edits, before, after } = outcome;
  const cards = (before.predictions ?? []).slice(0, 3);
  const wide = SIDE + answer.heads.length * CELL;
  const lists = cards.map((one) => ({
    one,
    other: after?.predictions?.find((p) => p.position === one.position) ?? null,
  }));
  const top =
    Math.max(answer.layers.length * HIGH, ...lists.map(({ one, other }) => guessesOf(one, other).length * LINE)) + 62;
  const high = top + (lens.length ? (answer.layers.length + 3) * HIGH : 0);
  const draw = (surface: Surface, ink: Ink): void => {
    surface.text(edits.length ? inWords(edits) : "Nothing is changed", 20, 22, {
      size: 13,
      colour: ink.ink,
      bold: true,
    });
    if (tint)
      surface.text(`Heads coloured by: ${tint.bar.label}, ${tint.bar.words}`, 20, 38, { size: 9, colour: ink.muted });
    drawSwitches(surface, answer, edits, tint, 20, 50, ink);
    lists.forEach(({ one, other }, n) => drawPrediction(surface, one, other, 20 + wide + 30 + n * COLUMN, 38, ink));
    lens.forEach((one, n) =>
      drawLens(
        surface,
        one,
        lens.length > 1 ? ([", before", ", after"][n] ?? "") : "",
        20 + n * LENS_WIDE,
        top + 10,
        ink,
      ),
    );
  };
  return { width: Math.max(40 + wide + 30 + cards.length * COLUMN, 20 + lens.length * LENS_WIDE), height: high, draw };
}

const LENS_CELL = 104,
  LENS_WIDE = 70 + 5 * LENS_CELL + 30;

function drawLens(
  surface: Surface,
  { token, position, layers = [] }: Prediction,
  side: string,
  x: number,
  y: number,
  ink: Ink,
): void {
  surface.text(`Lens at ${escapeBidi(token ?? "the end")} ${position}${side}`, x, y, {
    size: 11,
    colour: ink.ink,
    bold: true,
  });
  layers.forEach(({ top }, l) => {
    const at = y + 22 + l * HIGH;
    surface.text(l ? `layer ${l - 1}` : "embeddings", x, at, { size: 9, colour: ink.muted });
    top.slice(0, 5).forEach(({ token: text, probability }, n) => {
      surface.rect(
        x + 68 + n * LENS_CELL,
        at - 8,
        LENS_CELL - 4,
        16,
        ink.accent,
        null,
        0.6 * Math.sqrt(probability ?? 0),
      );
      surface.text(`${escapeBidi(text)} ${percent(probability)}`, x + 72 + n * LENS_CELL, at, {
        size: 9,
        colour: ink.ink,
      });
    });
  });
}

function drawSwitches(
  surface: Surface,
  { layers, heads }: Answer,
  edits: readonly Edit[],
  tint: Tint | null,
  x: number,
  y: number,
  ink: Ink,
): void {
  layers.forEach((l) => {
    surface.text(`L${l}`, x, y + (l + 0.5) * HIGH, { size: 9, colour: ink.muted });
    heads.forEach((k) => {
      const value = tint?.values[l]?.[k] ?? null;
      const [left, top] = [x + SIDE + k * CELL, y + l * HIGH];
      const place = tint && value !== null ? tint.place(value) : null;
      const edit = edits.find((e) => e.layer === l && e.head === k);
      surface.rect(
        left,
        top,
        CELL - 2,
        HIGH - 2,
        tint && place !== null ? cssOf(tint.bar.lut, place) : null,
        edit ? ink.accent : ink.line,
      );
      const colour = tint && place !== null ? inkOn(tint.bar.lut, place) : ink.ink;
      if (edit)
        surface.text(signOf(edit), left + CELL / 2 - 1, top + HIGH / 2 - 1, {
          size: 9,
          colour,
          anchor: "middle",
          bold: true,
        });
    });
  });
}

function drawPrediction(
  surface: Surface,
  one: Prediction,
  other: Prediction | null,
  x: number,
  y: number,
  ink: Ink,
): void {
  surface.text(`At ${escapeBidi(one.token ?? "the end")} ${one.position}${other ? ": before → after" : ""}`, x, y, {
    size: 11,
    colour: ink.ink,
    bold: true,
  });
  const guesses = guessesOf(one, other);
  const top = Math.max(1e-9, ...guesses.flatMap((g) => [g.before?.probability ?? 0, g.after?.probability ?? 0]));
  guesses.forEach(({ token, before, after }, n) => {
    const at = y + 20 + n * LINE;
    surface.text(escapeBidi(token), x, at, { size: 10, colour: ink.ink });
    const bar = (probability: number | undefined, down: number, colour: string): void =>
      surface.rect(x + 100, at + down, Math.max(0.5, (100 * (probability ?? 0)) / top), 4, colour, null);
    bar(before?.probability, -5, ink.muted);
    if (other) bar(after?.probability, 1, ink.accent);
    const written = [before, ...(other ? [after] : [])]
      .map((place) => (place ? percent(place.probability) : "–"))
      .join(" → ");
    surface.text(written, x + 210, at, { size: 10, colour: ink.ink });
  });
}
