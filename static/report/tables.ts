// The findings, the heads' figures, and the texts behind the extremes.
import { h, select } from "../src/dom";
import { percent } from "./chart";
import type { Extreme, Report } from "./data";
import type { Pick } from "./figures";
import { saveCsv, type Table } from "./save";

export function findings(report: Report): HTMLElement {
  const table: Table = [["claim", "paper", "measured", "criterion", "holds"],
    ...report.findings.map((f) => [f.claim, f.paper, f.measured, f.criterion, f.holds === null ? null : String(f.holds)])];
  return h("section", { id: "findings", "aria-label": "Findings" },
    h("h2", {}, "Findings"),
    h("p", { class: "muted" }, "The paper's claims beside what this run measured. The criterion is ours: the paper states most of them in words."),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Claim", "Paper", "Measured here", "Criterion", "Holds"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, report.findings.map((f) => h("tr", {},
        h("th", { scope: "row" }, f.claim), h("td", {}, f.paper), h("td", {}, f.measured), h("td", { class: "muted" }, f.criterion),
        h("td", { class: `holds ${f.holds === null ? "unknown" : f.holds}` }, f.holds === null ? "–" : f.holds ? "yes" : "no")))))),
    h("p", {}, h("button", { onclick: () => saveCsv("findings", table) }, "CSV")));
}

const number = (v: number | null, digits = 2): string => (v === null ? "–" : v.toFixed(digits));
const share = (v: number | null): string => (v === null ? "–" : percent(v));
const COLUMNS = ["Head", "High pairs", "Repeated", "lift", "Same sentence", "lift", "Both", "lift", "Mean distance", "median", "Focal share", "d′", "AUC"];

export function heads(report: Report, pick: Pick): HTMLElement {
  const rows = report.head_figures[pick.t]![pick.last]!;
  const all: Table = [["threshold", "layer", "head", "high_pairs", "texts_with_high", "repeated_share", "repeated_spread", "repeated_lift",
    "same_sentence_share", "same_sentence_spread", "same_sentence_lift", "repeated_same_sentence_share", "repeated_same_sentence_lift",
    "mean_distance", "mean_distance_spread", "median_distance", "focal_share", "focal_share_spread", "dprime", "auc"]];
  report.head_figures.forEach((layers, t) => layers.forEach((list, l) => list.forEach((f, k) => all.push([
    report.thresholds[t]!, report.layers[l]!, k, f.high, f.texts_with_high, f.repeated_share.value, f.repeated_share.spread, f.repeated_lift,
    f.same_sentence_share.value, f.same_sentence_share.spread, f.same_sentence_lift, f.repeated_same_sentence_share, f.repeated_same_sentence_lift,
    f.mean_distance.value, f.mean_distance.spread, f.median_distance, f.focal_share.value, f.focal_share.spread, f.dprime, f.auc]))));
  return h("section", { id: "heads", "aria-label": "Heads" },
    h("h2", {}, `Heads of layer ${report.layers[pick.last]} at threshold ${report.thresholds[pick.t]}`),
    h("div", { class: "wide" }, h("table", { class: "numbers" },
      h("thead", {}, h("tr", {}, COLUMNS.map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, rows.map((f, k) => h("tr", {}, h("th", { scope: "row" }, String(k)), [
        f.high.toLocaleString("en"), share(f.repeated_share.value), number(f.repeated_lift), share(f.same_sentence_share.value),
        number(f.same_sentence_lift), share(f.repeated_same_sentence_share), number(f.repeated_same_sentence_lift),
        number(f.mean_distance.value, 1), number(f.median_distance, 1), share(f.focal_share.value), number(f.dprime), number(f.auc),
      ].map((v) => h("td", {}, v)))),
      h("tr", { class: "muted" }, h("th", { scope: "row" }, "chance"), ["", share(report.chance.repeated_share), "", share(report.chance.same_sentence_share), "",
        share(report.chance.repeated_same_sentence_share), "", number(report.chance.mean_distance, 1), number(report.chance.median_distance, 1), "", "", ""]
        .map((v) => h("td", {}, v)))))),
    h("p", {}, h("button", { onclick: () => saveCsv("heads", all) }, "CSV of all layers and thresholds")));
}

// ---- examples ----

const NAMES: Record<string, string> = {
  repeated_share: "repeated-token share", same_sentence_share: "same-sentence share", mean_distance: "mean distance",
  focal_share: "focal share", high_pairs: "number of high pairs", separator_attention: "attention on separators",
};
let figure = "repeated_share";

// Where the viewer is: beside this page when a server answered with it, else at the address `headscope serve` takes.
function viewerLink({ provenance: { model, options } }: Report, text: string, layer: number, head: number): string {
  const base = location.protocol.startsWith("http") ? new URL("../../", location.href).href : "http://127.0.0.1:8080/";
  const [max, at, k] = [options.max_tokens, layer, head].map(String);
  return `${base}#${new URLSearchParams({ view: "head", model: model.name, max: max!, layer: at!, head: k!, text })}`;
}

export function examples(report: Report, pick: Pick): HTMLElement {
  const body = h("tbody", {});
  const layer = report.layers[pick.last]!;
  const cell = (extremes: Extreme[], head: number): HTMLElement => h("td", {}, extremes.map(([at, value]) => {
    const text = report.examples.texts[at]!;
    return h("details", {}, h("summary", {}, `${+value.toPrecision(3)} · line ${text.line}: ${text.text.slice(0, 60)}…`),
      h("p", {}, text.text), h("p", {}, h("a", { href: viewerLink(report, text.text, layer, head), target: "_blank", rel: "noopener" }, "Open in the viewer")));
  }));
  const fill = (): void => body.replaceChildren(...Array.from({ length: report.heads }, (_, k) => h("tr", {},
    h("th", { scope: "row" }, String(k)), cell(report.examples.highest[figure]?.[pick.last]?.[k] ?? [], k),
    cell(report.examples.lowest[figure]?.[pick.last]?.[k] ?? [], k))));
  const chooser = select("Figure", Object.entries(NAMES), (value) => { figure = value; fill(); });
  chooser.set(figure);
  fill();
  return h("section", { id: "examples", "aria-label": "Examples" },
    h("h2", {}, `Examples for layer ${layer}`),
    h("p", { class: "muted" }, `The texts with the highest and lowest figures among ${report.examples.texts.length} drawn at random from the corpus; threshold ${report.provenance.options.threshold}.`),
    chooser.element,
    h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ["Head", "Highest", "Lowest"].map((t) => h("th", { scope: "col" }, t)))), body)));
}
