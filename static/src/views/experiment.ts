// Change heads and see what follows: predictions, tokens, every head's maps, before and after.
import type { Changes, Prediction } from "../../../build/openapi";
import { nameOf, type App, type Selection } from "../app";
import type { Answer, JsonAnswer } from "../answer";
import type { Entry } from "../cache";
import { lutOf } from "../colour";
import { effectsOf, progressOf, type Effects } from "../effects";
import { colourBar } from "../colourbar";
import { disclosure, h, replace, segmented, select } from "../dom";
import { MASKED } from "../examples";
import { experimentExport } from "../experiment-export";
import { ExperimentMaps } from "../experiment-maps";
import { isEffect, tintOf, TONE_ABOUT, valuesOf } from "../experiment-tones";
import type { Exportable } from "../export";
import { HeadSwitches, type Tint } from "../head-switches";
import { inWords, KIND_NAMES, KINDS, requestOf, toggled, toggledLayer, type Edit, type Kind } from "../interventions";
import { axisOf, entryOf } from "../lens";
import { LENS_TOP, lensTable } from "../lens-table";
import { predictionCard } from "../prediction-cards";
import { Ranks } from "../ranks";
import { predictionRequest, type Asked } from "../requests";
import { ticksOf, wordsOf } from "../scale";
import { TONES, type Tone } from "../state";
import { jsonStatusOf, statusOf } from "../status";
import { TokenStrip, type TokenTint } from "../token-strip";

const CARDS = 3; // masks shown at once
const TOP_MOST = 100; // tokens of a prediction, of which the likeliest are shown

// The answers of the pass as it is and as it is changed.
export interface Outcome {
  before: JsonAnswer;
  after: JsonAnswer | null; // null: nothing is changed
  edits: readonly Edit[];
}

export class ExperimentView {
  readonly element: HTMLElement;
  private readonly kind;
  private readonly factor = h("input", { type: "number", step: 0.1, min: -100, max: 100 });
  private readonly factorField = h("label", { class: "field factor" }, h("span", {}, "Factor"), this.factor);
  private readonly release = h("button", { type: "button", onclick: () => this.app.set({ edits: [] }, true) }, "Release all");
  private readonly words = h("p", { class: "edits", role: "status" });
  private readonly tone;
  private readonly bar = h("div");
  private readonly switches: HeadSwitches;
  private readonly strip: TokenStrip;
  private readonly depth = h("select", { onchange: () => this.app.set({ depth: Number(this.depth.value) }) });
  private readonly depthField = h("label", { class: "field" }, h("span", {}, "Tokens coloured by change of state after"), this.depth);
  private readonly stripBar = h("div");
  private readonly cards = h("div", { class: "cards-of-predictions" });
  private readonly progress = h("div");
  private readonly caption = h("p", { class: "muted caption" });
  private readonly ask = h("button", { type: "button", onclick: () => this.askEffects() }, "Which heads matter? Switch each off alone");
  private readonly ranks: Ranks;
  private readonly lenses = h("div", { class: "lenses" });
  private readonly lens = disclosure(h("summary", {}, "What it would say after every layer"), [this.lenses], () =>
    this.app.set({ lens: !this.app.state.lens }),
  );
  private readonly maps: ExperimentMaps;
  private readonly status = h("div");
  private readonly body: HTMLElement;
  private last: Outcome | null = null; // shown until the next is here

  constructor(private readonly app: App) {
    this.kind = segmented<Kind>(
      "A press on a head does",
      KIND_NAMES.map((kind) => ({ value: kind, label: KINDS[kind].name, title: KINDS[kind].title })),
      (kind) => app.set({ kind }),
    );
    this.factor.addEventListener("input", () => {
      const factor = this.factor.valueAsNumber;
      if (Math.abs(factor) <= 100) app.set({ factor });
    });
    this.tone = select(
      "Heads coloured by",
      TONES.map((tone) => [tone, TONE_ABOUT[tone].name] as const),
      (tone) => app.set({ tone: tone as Tone }),
    );
    const toggle = (layer: number, head: number): void =>
      app.set({ edits: toggled(app.state.edits, { ...this.pressed, layer, head }) }, true);
    this.ranks = new Ranks({ open: (layer, head) => this.open(layer, head), toggle, choose: (entry) => this.choose(entry) });
    this.switches = new HeadSwitches({
      toggle,
      toggleLayer: (layer) => {
        const heads = app.overview().answer?.heads.length ?? 0;
        app.set({ edits: toggledLayer(app.state.edits, heads, { ...this.pressed, layer }) }, true);
      },
      show: (layer, head) => this.open(layer, head),
    });
    this.strip = new TokenStrip(
      "Tokens: choose the one to predict",
      (entry) => this.choose(entry),
      (text, aloud) => app.readout(text, aloud),
    );
    this.maps = new ExperimentMaps(app);
    this.body = h(
      "div",
      { class: "experiment-body" },
      h(
        "div",
        { class: "lab" },
        h(
          "section",
          { class: "lab-heads", "aria-label": "Heads" },
          h("div", { class: "toolbar" }, this.tone.element, this.bar),
          this.switches.element,
          this.progress,
          h("div", {}, this.ask),
          this.caption,
        ),
        h(
          "section",
          { class: "lab-tokens", "aria-label": "Predictions" },
          this.strip.element,
          h("div", { class: "toolbar" }, this.depthField, this.stripBar),
          this.cards,
        ),
      ),
      this.ranks.element,
      this.lens,
      this.maps.element,
    );
    this.element = h(
      "section",
      { class: "view experiment", "aria-label": "Experiment" },
      h("div", { class: "toolbar" }, this.kind.element, this.factorField, this.release, this.words),
      this.status,
      this.body,
    );
  }

  // What a press on a head makes of it.
  private get pressed(): Pick<Edit, "kind" | "factor"> {
    const { kind, factor } = this.app.state;
    return { kind, factor: kind === "scale" ? factor : 0 };
  }

  private open(layer: number, head: number): void {
    if (!this.app.state.edits.length) return this.app.set({ view: "head", layer, head, pin: [] }, true);
    this.app.set({ layer, head, pin: [] }, true);
    this.maps.element.scrollIntoView({ block: "start", behavior: "smooth" });
  }

  private choose(entry: number): void {
    const { app } = this;
    const { groups } = axisOf(app.overview().answer!.encoding, app.state);
    const at = groups[entry]![0]!;
    app.set({ at: at === app.state.at ? -1 : at });
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    this.kind.set(state.kind);
    this.factorField.hidden = state.kind !== "scale";
    if (document.activeElement !== this.factor) this.factor.value = String(state.factor);
    this.tone.set(state.tone);
    const entry = app.overview();
    const { answer } = entry;
    replace(this.status, statusOf(app, entry));
    this.body.hidden = !answer;
    if (!answer) return;
    const edits = this.edits(answer);
    this.release.disabled = !edits.length;
    const words = edits.length ? inWords(edits) : "Nothing is changed yet";
    if (this.words.textContent !== words) this.words.textContent = words;
    const selection = app.selection(answer);
    this.outcome(answer, edits);
    this.colourHeads(answer, edits, selection);
    this.colourTokens(answer);
    this.predict(answer);
    this.read(edits);
    this.maps.update(answer, edits, selection, this.changedState(edits));
  }

  // Those the model has.
  private edits({ layers, heads }: Answer): readonly Edit[] {
    return this.app.state.edits.filter(({ layer, head }) => layer < layers.length && head < heads.length);
  }

  private changedState(edits: readonly Edit[]): Asked {
    return edits.length ? { ...this.app.state, interventions: requestOf(edits) } : this.app.state;
  }

  // How many tokens of a prediction are asked for; 0: the checkpoint has no head for them.
  private get most(): number {
    const { models, state } = this.app;
    const model = models.find(({ name }) => name === state.model) ?? models[0];
    return model?.mlm === false ? 0 : Math.min(TOP_MOST, model?.vocab_size ?? TOP_MOST);
  }

  private at({ encoding }: Answer): number {
    const { at } = this.app.state;
    return at < encoding.ids.length ? at : -1;
  }

  // Asks for both sides; the last ones stay on screen until the next are here.
  private outcome(answer: Answer, edits: readonly Edit[]): void {
    const { app } = this;
    const ask = (asked: Asked): Entry<JsonAnswer> =>
      app.jsonCache.want(predictionRequest(asked, this.at(answer), this.most));
    const before = ask(app.state);
    const after = edits.length ? ask(this.changedState(edits)) : null;
    const waiting = [before, after].find((entry) => entry && entry.status !== "ready");
    if (before.answer && (!after || after.answer)) this.last = { before: before.answer, after: after?.answer ?? null, edits };
    else if (this.last?.before.tokens.join(" ") !== answer.encoding.tokens.join(" ")) this.last = null;
    this.body.setAttribute("aria-busy", String(Boolean(waiting)));
    if (waiting && (waiting.status !== "loading" || !this.last)) replace(this.status, jsonStatusOf(app, waiting));
  }

  private colourHeads(answer: Answer, edits: readonly Edit[], selection: Selection): void {
    const { app } = this;
    const { tone } = app.state;
    const effects = this.effects(answer);
    const tint = this.tint(answer, effects);
    replace(this.progress, effects && progressOf(app, effects));
    replace(this.bar, tint && colourBar(tint.bar));
    this.switches.show(answer.layers.length, answer.heads.length, edits, tint, selection);
    this.ranks.showHeads(tint, TONE_ABOUT[tone].title, edits);
    const blank = effects && !effects.next && tint?.values.flat().every((v) => v === null);
    const press = "Press a head to change it, L3 for its whole layer; Shift and press shows its maps.";
    const missing = tone === "logprob_change" ? "This needs a token that is no mask: choose one in the text. " : "This needs a token that is predicted: choose one in the text. ";
    this.ask.hidden = tint !== null;
    this.ask.disabled = !this.last; // which says whether there are predictions to colour by
    this.caption.textContent = (blank ? missing : "") + press;
  }

  private askEffects(): void {
    this.app.set({ tone: this.last?.before.predictions?.length ? "prediction_kl" : "hidden_change" });
  }

  private effects(answer: Answer): Effects | null {
    return isEffect(this.app.state.tone) ? effectsOf(this.app, answer, this.most ? this.at(answer) : null) : null;
  }

  private tint(answer: Answer, effects: Effects | null): Tint | null {
    const { map, tone } = this.app.state;
    const values = valuesOf(tone, this.last?.after?.changes, effects, answer.heads.length);
    return values && tintOf(tone, values, map, this.app.theme);
  }

  // How far each token's state moved after the chosen layer.
  private moved(changes: Changes | undefined): { values: number[]; depth: number } | null {
    if (!changes) return null;
    const { depth } = this.app.state;
    const last = changes.hidden.length - 2;
    const layer = depth < 0 ? last : Math.min(depth, last);
    return { values: changes.hidden[layer + 1]!.map((v) => v ?? 0), depth: layer };
  }

  private colourTokens(answer: Answer): void {
    const { app } = this;
    const { state } = app;
    const axis = this.axis(answer);
    const moved = this.moved(this.last?.after?.changes);
    const values = moved && axis.groups.map((group) => group.reduce((sum, t) => sum + moved.values[t]!, 0) / group.length);
    const top = values ? Math.max(0, ...values) : 0;
    const lut = lutOf(state.map, "figure", app.theme);
    const tint: TokenTint | null = values && { values, top, lut, label: "moved" };
    const predicted = this.last?.before.predictions?.map(({ position }) => entryOf(axis, position)) ?? [];
    this.strip.show(axis, state.text, state.pair, predicted, tint);
    this.depthField.hidden = !moved;
    const layers = answer.layers.length;
    if (this.depth.options.length !== layers)
      replace(this.depth, answer.layers.map((l) => h("option", { value: l }, `layer ${l}`)));
    if (moved) this.depth.value = String(moved.depth);
    const label = "Change of state";
    replace(this.stripBar, moved && colourBar({ lut, label, ticks: ticksOf(top, "linear"), words: wordsOf("linear", 0, top) }));
    this.ranks.showTokens(axis, values, moved?.depth ?? 0);
  }

  // The same object as long as it would say the same: what is laid out by it stays.
  private laid: { answer: Answer; key: string; axis: ReturnType<typeof axisOf> } | null = null;
  private axis(answer: Answer): ReturnType<typeof axisOf> {
    const { special, words } = this.app.state;
    const key = `${special} ${words}`;
    if (this.laid?.answer !== answer || this.laid.key !== key) this.laid = { answer, key, axis: axisOf(answer.encoding, { special, words }) };
    return this.laid.axis;
  }

  private predict(answer: Answer): void {
    const { last } = this;
    if (!this.most) return replace(this.cards, h("p", { class: "muted" }, "This checkpoint has no head for masked tokens, so it predicts none. What changes inside it is shown all the same."));
    if (!last) return replace(this.cards);
    const predictions = last.before.predictions ?? [];
    const after = new Map(last.after?.predictions?.map((one) => [one.position, one]));
    const more = predictions.length - CARDS;
    replace(
      this.cards,
      predictions.slice(0, CARDS).map((one) => predictionCard(one, after.get(one.position) ?? null)),
      more > 0 && h("p", { class: "muted" }, `${more} more masked: choose one in the text.`),
      this.at(answer) >= 0 && h("button", { type: "button", onclick: () => this.app.set({ at: -1 }) }, "Back to the masked tokens"),
      !predictions.length && this.offer(),
    );
  }

  private offer(): HTMLElement {
    return h(
      "div",
      { class: "notice" },
      h("p", {}, "This text has no [MASK]. Choose a token above to see what the model expects in its place, or take a text with one:"),
      MASKED.map((text) =>
        h("button", { type: "button", class: "link", onclick: () => this.app.set({ text, pair: "", at: -1, pin: [], sel: [], zoom: [] }, true) }, text),
      ),
    );
  }

  // The lens at the first token that is predicted, of both sides.
  private read(edits: readonly Edit[]): void {
    const { app } = this;
    const one = this.last?.before.predictions?.[0];
    this.lens.hidden = !one;
    this.lens.open = app.state.lens;
    if (!one || !app.state.lens) return replace(this.lenses);
    const sides = this.asked(edits, one.position);
    const waiting = sides.find(({ status }) => status !== "ready");
    if (waiting) return void (waiting.status === "loading" && this.lenses.childElementCount ? 0 : replace(this.lenses, jsonStatusOf(app, waiting)));
    const lut = lutOf(app.state.map, "figure", app.theme);
    const names = edits.length ? ["Before", "After"] : [""];
    replace(
      this.lenses,
      sides.map(({ answer: told }, n) => lensTable(told!.predictions![0]!, names[n]!, lut)),
      h("p", { class: "muted" }, "Shaded by the square root of the probability; framed: what the model answers in the end. Models with norms behind their sublayers were not trained to be read early."),
    );
  }

  private asked(edits: readonly Edit[], position: number): Entry<JsonAnswer>[] {
    const { app } = this;
    const most = Math.min(LENS_TOP, this.most);
    const states = edits.length ? [app.state, this.changedState(edits)] : [app.state];
    return states.map((asked) => app.jsonCache.want(predictionRequest(asked, position, most, true)));
  }

  private readings(edits: readonly Edit[]): Prediction[] {
    const one = this.last?.before.predictions?.[0];
    return one ? this.asked(edits, one.position).flatMap(({ answer }) => answer?.predictions ?? []) : [];
  }

  exportable(): Exportable | null {
    const { answer } = this.app.overview();
    if (!answer || !this.last) return null;
    const selection = this.app.selection(answer);
    const edits = this.edits(answer);
    const parts = { answer, outcome: this.last, selection, tint: this.tint(answer, this.effects(answer)), lens: this.app.state.lens ? this.readings(edits) : [], plates: edits.length ? this.maps.drawn : [] };
    return experimentExport(this.app, parts, this.changedState(edits), { at: this.at(answer), most: this.most }, `experiment-${nameOf(selection)}`);
  }
}
