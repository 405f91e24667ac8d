// Shared by all specs: a page that fails the test on any error, policy violation or foreign request.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test as base, type APIRequestContext, type FrameLocator, type Locator, type Page, type Request } from "@playwright/test";
import { EXAMPLES } from "../src/app/examples";
import { serve, taskModels } from "./server";

// Requests of a page that have no answer yet. A stream of events is none: it stays open.
const pending = new WeakMap<Page, Set<Request>>();

export const test = base.extend<{ watched: Page }, { home: string }>({
  home: [
    async ({}, use, { parallelIndex }) => {
      const server = await serve(parallelIndex);
      await use(server.home);
      await server.stop();
    },
    { scope: "worker" },
  ],
  // With VIEWER_COUNTS, a folder, V8's counts of each test go there: `make viewer-coverage`.
  page: async ({ page }, use, { testId }) => {
    const folder = process.env.VIEWER_COUNTS;
    if (folder) await page.coverage.startJSCoverage({ resetOnNavigation: false });
    await use(page);
    if (!folder || page.isClosed()) return;
    const result = (await page.coverage.stopJSCoverage()).map(({ url, functions }) => ({ url, functions }));
    writeFileSync(`${folder}/browser-${testId}.json`, JSON.stringify({ result }));
  },
  watched: async ({ page, home }, use) => {
    const wrong: string[] = [];
    const open = new Set<Request>();
    pending.set(page, open);
    page.on("request", (request) => {
      if (request.isNavigationRequest() && request.frame() === page.mainFrame()) open.clear(); // those of the page before may never end
      if (!request.url().endsWith("/events")) open.add(request);
    });
    for (const end of ["requestfinished", "requestfailed"] as const) page.on(end as "requestfinished", (request) => void open.delete(request));
    page.on("pageerror", (error) => wrong.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error" && !message.text().includes("the server responded with a status of 4"))
        wrong.push(message.text());
    });
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(home) && !/^(data|blob):/.test(url)) wrong.push(`request to ${url}`);
    });
    await use(page);
    expect(wrong).toEqual([]);
  },
});

// The same, with a server of the models that have a head of their own.
export const taskTest = test.extend<object, { home: string }>({
  home: [
    async ({}, use, { parallelIndex }) => {
      const server = await serve(parallelIndex, taskModels(parallelIndex));
      await use(server.home);
      await server.stop();
    },
    { scope: "worker" },
  ],
});

export { expect };

// A visit without the tour; the fragment is the state. An empty one opens the first page, whose similarities are centred.
export async function open(page: Page, home: string, fragment = "view=overview", tour = false): Promise<void> {
  if (!tour) await page.addInitScript(() => localStorage.setItem("headscope-tour-seen", "1"));
  await page.goto(`${home}${fragment ? `#${fragment}` : ""}`);
}

// Waits until the page shows its latest answers.
export const drawn = (page: Page): Promise<void> =>
  page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));

// Waits until the overview asks for nothing more: every head has its picture, and the one on the card its label. Labels
// come last. They are of a sample text, which the page requests once the maps are made.
export async function complete(page: Page): Promise<void> {
  const blank = (): Promise<number> =>
    thumbs(page)
      .locator("canvas")
      .evaluateAll((all) => {
        const dots = (c: HTMLCanvasElement): Uint8ClampedArray => c.getContext("2d")!.getImageData(0, 0, c.width, c.height).data;
        return (all as HTMLCanvasElement[]).filter((canvas) => !dots(canvas).some(Boolean)).length;
      });
  await expect(thumbs(page)).not.toHaveCount(0);
  await expect.poll(blank).toBe(0);
  await expect(page.getByRole("region", { name: "Enlarged head" }).locator("h2 small")).not.toBeEmpty();
}

// Waits until a watched page has every answer that it requested, its fonts, and has drawn them.
export async function settled(page: Page): Promise<void> {
  const requested = pending.get(page)!;
  const looks = async (): Promise<number> => {
    await page.evaluate(() => document.fonts.ready);
    await drawn(page);
    return requested.size;
  };
  await expect.poll(looks, { intervals: [20] }).toBe(0); // its own would grow to a second
  await drawn(page);
}

// The address follows what is seen a moment later, by a timer of the page: one started now that takes longer ends after it.
export async function reload(page: Page): Promise<void> {
  await drawn(page);
  await page.evaluate(() => new Promise((done) => setTimeout(done, 300)));
  await page.reload();
}

// Saves by an item of the menu Export, whose name begins like this.
export async function saved(page: Page, name: string): Promise<{ bytes: Buffer; file: string }> {
  const item = page.getByRole("button", { name: new RegExp(`^${name}`) });
  if (!(await item.isVisible())) await exportMenu(page).click();
  const [download] = await Promise.all([page.waitForEvent("download"), item.click()]);
  const bytes = readFileSync(await download.path());
  await page.keyboard.press("Escape");
  return { bytes, file: download.suggestedFilename() };
}

// Shows a view's controls that are rarely used, those that sort and find heads, or a menu beside the text.
export const more = (page: Page) => page.getByRole("button", { name: "More", exact: true }).click();
export const findHeads = (page: Page) => page.getByRole("button", { name: "Find heads…" }).click();
export const textOptions = (page: Page) => page.getByText("Text…", { exact: true }).click();
export const displayOptions = (page: Page) => page.getByText("Display…", { exact: true }).click();

// Goes to a view: to its section, unless the page is there, and to its part of the section.
const SECTION_OF: Record<string, string> = { Maps: "Head", Text: "Head", Pairs: "Head", Compare: "What if", Experiment: "What if", Trace: "What if" };
export async function goTo(page: Page, name: string, click = (target: Locator): Promise<unknown> => target.click()): Promise<void> {
  const section = SECTION_OF[name];
  const tab = page.getByRole("navigation", { name: "Sections" }).getByRole("button", { name: section ?? name, exact: true });
  if (!section || (await tab.getAttribute("aria-current")) === null) await click(tab);
  const part = page.getByRole("navigation", { name: `Parts of ${section}` }).getByRole("button", { name, exact: true });
  if (section && (await part.getAttribute("aria-current")) === null) await click(part);
}

// Parts of the page, by role and name as an assistive program finds them. Classes find the rest: pixels of canvases,
// lines of drawings, and what is measured.
type Part = Page | Locator | FrameLocator;
export const thumbs = (on: Part) => on.getByRole("grid", { name: "Heads: layers by heads" }).getByRole("button");
export const chosenThumb = (on: Part) => on.getByRole("gridcell", { selected: true }).getByRole("button");
export const thumb = (on: Part, layer: number, head: number) =>
  thumbs(on).and(on.getByRole("button", { name: new RegExp(`layer ${layer}, head ${head}\\b`, "i") }));
export const textBox = (on: Part) => on.getByRole("textbox", { name: "Text", exact: true });
export const limit = (on: Part) => on.getByRole("spinbutton", { name: "Tokens at most" });
export const modelBox = (on: Part) => on.getByRole("combobox", { name: "Model", exact: true });
export const analysed = (on: Part) => on.getByRole("status", { name: "Analysed text" });
export const figures = (on: Part) => on.getByRole("group", { name: "Figures" });
export const exactFigures = (on: Part) => figures(on).and(on.locator("[aria-busy=false]"));
export const figure = (on: Part, name: string) => figures(on).locator("dl > div", { hasText: name });
export const tokens = (on: Part) => on.getByRole("listbox").getByRole("option");
export const chosenTokens = (on: Part) => on.getByRole("listbox").getByRole("option", { selected: true });
export const maps = (on: Part) => on.getByRole("application");
export const headMap = (on: Part) => on.getByRole("group", { name: "All heads" });
export const rankedHeads = (on: Part) => on.getByRole("list", { name: "Heads, strongest first" });
export const bodyRows = (table: Locator) => table.getByRole("rowgroup").last().getByRole("row");
export const pairRows = (on: Part) => bodyRows(on.getByRole("table", { name: "High-similarity pairs" }));
export const pairCount = (on: Part) => on.getByRole("status").filter({ hasText: "high pairs" });
export const predictions = (on: Part) => on.getByRole("table", { name: /^Predictions: / });
export const runCard = (on: Part, words: string) =>
  on.getByRole("list", { name: "Runs", exact: true }).getByRole("listitem").filter({ hasText: words });
export const runOptions = (on: Part) => on.getByRole("form", { name: "New run" }).getByText("Options", { exact: true });
export const exportMenu = (on: Part) => on.getByRole("banner").getByText("Export", { exact: true });
export const storyMenu = (on: Part) => on.getByRole("banner").getByText(/^Story( \d+)?$/);
export const menuNote = (on: Part) => on.getByRole("banner").getByRole("status");

export const readout = (page: Page) => page.locator(".readout .line");
export const view = (page: Page, name: string) => page.getByRole("region", { name, exact: true });

// Counts the different colours of a canvas. An empty one has one.
export const colours = (page: Page, selector: string): Promise<number> =>
  page
    .locator(selector)
    .first()
    .evaluate((node) => {
      const canvas = node as HTMLCanvasElement;
      const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size;
    });

export interface Place {
  layer: number;
  head: number;
  name: string;
  value: number;
}
// All heads, those of the largest value first, so that no test needs to know which head of which weights does what.
export const ranked = <T>(perHead: readonly T[][], valueOf: (one: T) => number): Place[] =>
  perHead
    .flatMap((row, layer) => row.map((one, head) => ({ layer, head, name: `${layer}·${head}`, value: valueOf(one) })))
    .sort((a, b) => b.value - a.value);

// A state with a text that is cut at 128 tokens.
export const LONG = `text=${encodeURIComponent(EXAMPLES[1]!.text)}`;

// The service's answer for all heads of the first text.
export const firstText = async (request: APIRequestContext, home: string, body: object) =>
  (await request.post(`${home}analyze`, { data: { text: EXAMPLES[0]!.text, layers: "all", ...body } })).json();

// Heads by the share of their attention that goes to the token before, or the one behind.
export const looking = async (request: APIRequestContext, home: string, where: "previous" | "next"): Promise<Place[]> => {
  const { profiles } = await firstText(request, home, { outputs: ["profiles"] });
  return ranked(profiles as Record<typeof where, number>[][], (profile) => profile[where]);
};

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  id: string;
  impact: string;
  nodes: { target: string[]; failureSummary: string }[];
}
// Returns what axe finds on the page, except for minor matters.
export async function findings(page: Page, rules: object = { rules: { "label-content-name-mismatch": { enabled: true } } }): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async (options) => {
    const { violations } = await (window as unknown as { axe: { run(o: unknown): Promise<{ violations: Violation[] }> } }).axe.run({
      ...options,
      resultTypes: ["violations"], // what passes needs no report
    });
    return violations
      .filter(({ impact }) => impact !== "minor")
      .map(({ id, nodes }) => `${id} ×${nodes.length}: ${nodes[0]!.target} ${nodes[0]!.failureSummary}`);
  }, rules);
}
