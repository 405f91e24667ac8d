// The report page: choices at the top redraw every figure; everything it needs is in the file.
import { h, select } from "../src/dom";
import "../src/style.css";
import "./report.css";
import { inkOf } from "./chart";
import { unpack, type Atlas, type Report } from "./data";
import { FIGURES, type Context, type Drawn, type Pick, type Plan } from "./figures";
import { saveCsv, savePng, saveSvg } from "./save";
import { examples, findings, heads } from "./tables";

const dark = matchMedia("(prefers-color-scheme: dark)");
const readout = h("output", { class: "reading", "aria-live": "off" });
const tell = (text: string): void => { readout.textContent = text; };

function figureElement(plan: Plan, context: Context): HTMLElement {
  const drawn: Drawn = plan.draw(context);
  const file = `figure-${plan.id}`;
  const wrapper = h("div", { class: "wide" });
  wrapper.append(drawn.picture);
  return h("figure", { id: file, "aria-label": plan.title },
    h("h2", {}, plan.title), wrapper,
    h("figcaption", {}, drawn.caption),
    h("p", { class: "save" },
      h("button", { onclick: () => saveCsv(file, drawn.table) }, "CSV"),
      h("button", { onclick: () => void savePng(file, drawn.picture) }, "PNG"),
      h("button", { onclick: () => saveSvg(file, drawn.picture) }, "SVG")));
}

function header(report: Report): HTMLElement {
  const { model, options, input, shards, date, seconds, headscope } = report.provenance;
  const known = report.findings.filter((f) => f.holds !== null);
  const facts: [string, string][] = [
    ["Model", `${model.name} · ${model.layers} layers × ${report.heads} heads · ${model.backend} ${model.precision}`],
    ["SHA-256", model.sha256],
    ["Texts", `${report.texts.toLocaleString("en")} (${report.tokens.toLocaleString("en")} tokens, cut at ${options.max_tokens}), ${report.all_pairs.toLocaleString("en")} pairs` +
      (report.bad_lines.count ? `, ${report.bad_lines.count.toLocaleString("en")} bad lines left out` : "")],
    ["Input", `${input.files.join(", ")} · SHA-256 ${input.sha256}` +
      (input.complete ? "" : ` of the first ${input.lines.toLocaleString("en")} lines: the run was stopped there`)],
    ["Made", `${date} by headscope ${headscope} in ${Math.round(seconds).toLocaleString("en")} s` +
      (shards.n > 1 ? `, shards ${shards.included.length} of ${shards.n}` : "")],
  ];
  return h("header", {}, h("h1", {}, "How this model pays attention"),
    h("p", {}, "The figures of ", h("a", { href: "https://arxiv.org/abs/2512.21956" }, "arXiv 2512.21956"), ", redrawn. ",
      h("a", { href: "#findings" }, `${known.filter((f) => f.holds).length} of ${known.length} of its claims hold here.`)),
    h("dl", {}, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function page(report: Report, atlas: Atlas): void {
  const n = report.layers.length;
  const pick: Pick = { early: n > 2 ? 1 : 0, middle: Math.floor(n / 2), last: n - 1, head: 0, t: report.threshold_main };
  const body = h("main", {});
  const layers = report.layers.map((layer, l) => [String(l), String(layer)] as const);
  const draw = (): void => {
    const theme = dark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
    const context: Context = { report, atlas, pick, ink: inkOf(theme), tell };
    body.replaceChildren(...FIGURES.map((plan) => figureElement(plan, context)), heads(report, pick), examples(report, pick), findings(report));
  };
  const choose = (label: string, key: keyof Pick, options: readonly (readonly [string, string])[]): HTMLElement => {
    const field = select(label, options, (value) => {
      const top = scrollY;
      pick[key] = Number(value);
      draw();
      scrollTo(0, top);
    });
    field.set(String(pick[key]));
    return field.element;
  };
  document.getElementById("report")!.append(header(report), h("nav", { class: "choices", "aria-label": "What the figures show" },
    choose("Layer", "last", layers), choose("Early", "early", layers), choose("Middle", "middle", layers),
    choose("Head (Fig. 2)", "head", Array.from({ length: report.heads }, (_, k) => [String(k), String(k)] as const)),
    choose("Threshold", "t", report.thresholds.map((v, t) => [String(t), String(v)] as const)), readout), body);
  draw();
  dark.addEventListener("change", draw);
}

try {
  const { report, atlas } = await unpack(document.getElementById("data")!.textContent!);
  document.title = `${report.provenance.model.name}, ${report.texts.toLocaleString("en")} texts · headscope`;
  page(report, atlas);
} catch (error) {
  document.getElementById("report")!.append(h("p", { role: "alert" }, `This page cannot read its data: ${String(error)}`));
}
