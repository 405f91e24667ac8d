// The report page. All of it is there without a script (server/corpus/report/report_html.c); this lets the reader look at other
// layers, heads, thresholds and ranges, reads maps under the pointer, and saves figures. The URL holds the choice.
import { h } from "../src/app/dom";
import "../src/styles.css";
import "./report.css";
import { tableOf } from "./csv";
import { inert } from "./inert";
import { unpack, type Data, type Pick } from "./data";
import { noteDrawn, paint, tellUnder } from "./maps";
import { csvBlob, pngBlob, save, svgBlob, type Table } from "../src/saving/files";
import { printed, together } from "./save";

type Choices = Pick & { range: number };
const RANGES = [
  ["100", "all of it"],
  ["99", "1st to 99th percentile"],
  ["95", "5th to 95th percentile"],
] as const;
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = (): void => {
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
};

// The keys of the panels that a pattern stands for.
function keysOf(pattern: string, pick: Pick, heads: number): string[] {
  const letters: Record<string, number> = {
    e: pick.early,
    m: pick.middle,
    b: Math.max(0, pick.layer - 1),
    l: pick.layer,
    h: pick.head,
    t: pick.threshold,
  };
  const keys = pattern.split(" ").flatMap((word) => {
    const [name, ...axes] = word.split(":");
    const all = axes.includes("*") ? Array.from({ length: heads }, (_, head) => head) : [0];
    return all.map((head) => [name, ...axes.map((axis) => (axis === "*" ? head : letters[axis]))].join(":"));
  });
  return [...new Set(keys)];
}

const nameOf = ({ report: { provenance, texts } }: Data): string =>
  `${provenance.model.name}${provenance.model.precision === "fp32" ? "" : ` in ${provenance.model.precision}`}, ${texts.toLocaleString("en")} texts, ${provenance.date}` +
  (provenance.options.interventions?.length ? `, with ${JSON.stringify(provenance.options.interventions)}` : "");

// A labelled choice, and how to set it.
function select(
  label: string,
  options: readonly (readonly [value: string, name: string])[],
  onchange: (value: string) => void,
): { element: HTMLElement; set: (value: string) => void } {
  const choices = options.map(([value, name]) => h("option", { value }, name));
  const input = h("select", { onchange: () => onchange(input.value) }, choices);
  const set = (value: string): void => void (input.value = value);
  return { element: h("label", { class: "field" }, h("span", {}, label), input), set };
}

const saveButton = (name: string, kind: string, make: () => Promise<Blob> | Blob): HTMLElement =>
  h(
    "button",
    { onclick: () => void Promise.resolve(make()).then((blob) => save(blob, `${name}.${kind}`)) },
    kind.toUpperCase(),
  );

const pictureButtons = (name: string, figure: HTMLElement): HTMLElement[] => [
  saveButton(name, "png", async () => pngBlob(await together(figure))),
  saveButton(name, "svg", async () => svgBlob(await together(figure))),
  h(
    "button",
    { title: "Opens the print dialog; choose Save as PDF", onclick: () => void printed(name, figure) },
    "PDF",
  ),
];

// A comparison of runs: all of it is in the page, and its figures can be saved.
function beginComparison(): void {
  document.title = `${document.querySelector("h1")?.textContent ?? ""} · headscope`;
  for (const figure of document.querySelectorAll<HTMLElement>("figure"))
    figure.append(h("p", { class: "save" }, pictureButtons(figure.id, figure)));
}

class Page {
  private readonly first: Choices;
  private readonly now: Choices;
  private readonly shown = new Map<string, string>();
  private readonly fields = new Map<keyof Choices, (value: string) => void>();
  private readonly readout = h("output", { class: "reading", "aria-live": "off" });
  private other?: Data; // a second run, drawn below the first

  constructor(private readonly data: Data) {
    this.first = { ...data.report.pick, range: 1 };
    this.now = { ...this.first };
    for (const [id, pattern] of Object.entries(data.report.figures))
      this.shown.set(id, keysOf(pattern, this.first, data.report.heads).join(" "));
  }

  // Lists the options of each choice: [index in the URL, name].
  private options(): Record<keyof Choices, (readonly [string, string])[]> {
    const { layers, heads, thresholds } = this.data.report;
    const numbered = layers.map((layer, l) => [String(l), String(layer)] as const);
    return {
      layer: numbered,
      early: numbered,
      middle: numbered,
      head: Array.from({ length: heads }, (_, k) => [String(k), String(k)] as const),
      threshold: thresholds.map((v, t) => [String(t), String(v)] as const),
      range: RANGES.map(([name], r) => [String(r), name] as const),
    };
  }

  private readUrl(): string | undefined {
    const parts = location.hash.slice(1).split("&");
    const given = new URLSearchParams(parts.filter((part) => part.includes("=")).join("&"));
    for (const [key, list] of Object.entries(this.options()) as [keyof Choices, (readonly [string, string])[]][]) {
      const found = list.find(([, name]) => name === given.get(key));
      this.now[key] = found ? Number(found[0]) : this.first[key];
      this.fields.get(key)?.(String(this.now[key]));
    }
    return parts.find((part) => part && !part.includes("="));
  }

  private writeUrl(): void {
    const anchor = location.hash
      .slice(1)
      .split("&")
      .filter((part) => part && !part.includes("="));
    const options = this.options();
    const chosen = (Object.keys(options) as (keyof Choices)[])
      .filter((key) => this.now[key] !== this.first[key])
      .map((key) => `${key}=${options[key][this.now[key]]![1]}`);
    const hash = [...anchor, ...chosen].join("&");
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  private show(): void {
    const { report, panels } = this.data;
    for (const [id, pattern] of Object.entries(report.figures)) {
      const keys = keysOf(pattern, this.now, report.heads);
      if (this.shown.get(id) === keys.join(" ")) continue;
      this.shown.set(id, keys.join(" "));
      const figure = document.getElementById(`figure-${id}`) ?? document.getElementById(id)!;
      const draw = (from: Data["panels"]): string => keys.map((key) => from.get(key) ?? "").join("");
      figure.querySelector(".panels:not(.other)")!.innerHTML = draw(panels);
      figure.querySelectorAll(".beside, .other").forEach((old) => old.remove());
      if (this.other) {
        const row = h("div", { class: "panels other" });
        row.append(inert(draw(this.other.panels)));
        figure.querySelector(".panels")!.after(h("p", { class: "beside" }, nameOf(this.other)), row);
      }
    }
    for (const word of document.querySelectorAll<HTMLElement>("[data-pick]"))
      word.textContent =
        this.options()[word.dataset.pick as keyof Choices][this.now[word.dataset.pick as keyof Choices]]![1];
    paint(this.data, this.now.range, ".panels:not(.other)");
    if (this.other) paint(this.other, this.now.range, ".other");
  }

  // Another report, from its file: the same panels of that run stand below these.
  private beside(): HTMLElement {
    const input = h("input", {
      type: "file",
      accept: ".html",
      hidden: true,
      onchange: () => void this.open(input.files![0]!),
    });
    return h(
      "span",
      { class: "field" },
      input,
      h("button", { type: "button", onclick: () => input.click() }, "Beside another report…"),
    );
  }

  private async open(file: File): Promise<void> {
    try {
      const page = new DOMParser().parseFromString(await file.text(), "text/html");
      this.other = await unpack(page.getElementById("data")!.textContent);
      this.shown.clear();
      this.show();
    } catch {
      this.readout.textContent = `${file.name} is no report of this version`;
    }
  }

  private choice(label: string, key: keyof Choices): HTMLElement {
    const options = this.options()[key].map(
      ([value, name]) => [value, key === "range" ? RANGES[Number(value)]![1] : name] as const,
    );
    const field = select(label, options, (value) => {
      this.now[key] = Number(value);
      this.writeUrl();
      this.show();
    });
    this.fields.set(key, field.set);
    return field.element;
  }

  private buttons(id: string, figure: HTMLElement): HTMLElement {
    const name = figure.tagName === "FIGURE" ? `figure-${id}` : id;
    const table = (): Table => tableOf(id, this.data, this.now, figure);
    return h(
      "p",
      { class: "save" },
      saveButton(name, "csv", () => csvBlob(table())),
      figure.tagName === "FIGURE" ? pictureButtons(name, figure) : [],
    );
  }

  private viewerLinks(): void {
    const { report } = this.data;
    const home = location.protocol.startsWith("http") ? new URL("../..", location.href).href : null;
    for (const link of document.querySelectorAll<HTMLAnchorElement>("a.viewer")) if (home) link.href = home + link.hash;
    document.getElementById("examples")!.addEventListener("click", (event) => {
      const chosen = (event.target as Element).closest<HTMLElement>("a[data-head]");
      const link = chosen && document.querySelector<HTMLAnchorElement>(`${chosen.getAttribute("href")!} a.viewer`);
      if (!link) return;
      const parameters = new URLSearchParams(link.hash.slice(1));
      parameters.set("layer", String(report.layers[this.now.layer]));
      parameters.set("head", chosen.dataset.head!);
      link.hash = parameters.toString();
    });
  }

  begin(): void {
    const nav = document.querySelector<HTMLElement>("nav.choices")!;
    nav.append(
      this.choice("Layer", "layer"),
      this.choice("Early", "early"),
      this.choice("Middle", "middle"),
      this.choice("Head (Fig. 2)", "head"),
      this.choice("Threshold", "threshold"),
      this.choice("Colours of maps", "range"),
      this.beside(),
      this.readout,
    );
    nav.hidden = false;
    for (const figure of document.querySelectorAll<HTMLElement>("figure, #heads, #findings"))
      figure.append(this.buttons(figure.id.replace("figure-", ""), figure));
    tellUnder((image) => (image.closest(".other") ? this.other! : this.data), this.readout);
    this.viewerLinks();
    const anchor = this.readUrl();
    noteDrawn();
    this.show();
    if (anchor) document.getElementById(anchor)?.scrollIntoView();
    addEventListener("hashchange", () => {
      if (location.hash.includes("=")) {
        this.readUrl();
        this.show();
      } else this.writeUrl();
    });
  }
}

follow();
dark.addEventListener("change", follow);
try {
  const packed = document.getElementById("data")!.textContent;
  if (packed) {
    const data = await unpack(packed);
    document.title = `${data.report.provenance.model.name}, ${data.report.texts.toLocaleString("en")} texts · headscope`;
    new Page(data).begin();
  } else beginComparison();
} catch (error) {
  document
    .getElementById("report")!
    .prepend(h("p", { role: "alert" }, `This page cannot read its data: ${String(error)}`));
}
