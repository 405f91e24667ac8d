// Fourteen tasks of a first visit, each from the start page and within three clicks. Typing is no click, nor are keys.
import { writeFileSync } from "node:fs";
import type { Locator, Page } from "@playwright/test";
import { EXAMPLES } from "../src/app/examples";
import { serve } from "./server";
import { analysed, bodyRows, colours, expect, exportMenu, figures, goTo, limit, looking, maps, open, predictions, rankedHeads, readout, settled, test, textBox, thumbs, view } from "./viewer";

const CLICKS = 3;

// Counts the clicks of one task.
class Visitor {
  private clicks = 0;
  constructor(readonly page: Page) {}

  private async count(act: Promise<unknown>): Promise<void> {
    await act;
    expect(++this.clicks, "clicks").toBeLessThanOrEqual(CLICKS);
  }
  click = (target: Locator, options?: Parameters<Locator["click"]>[0]) => this.count(target.click(options));
  button = (name: string) => this.click(this.page.getByRole("button", { name, exact: true }));
  tab = (name: string) => goTo(this.page, name, (target) => this.click(target));
  choose = (label: string, value: string) => this.count(this.page.getByLabel(label).selectOption(value));
}

// A first visit: nothing is stored, the tour is open.
async function arrive(page: Page, home: string): Promise<Visitor> {
  await page.goto("about:blank");
  await open(page, home, "", true);
  await expect(thumbs(page)).toHaveCount(144);
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(5);
  return new Visitor(page);
}
const cell = (page: Page): Locator => maps(page).first();

test("heads: the one that looks a word back, the one that ties two words, maps of 128 and 512 tokens", { tag: "@slow" }, async ({
  watched: page,
  home,
  request,
}) => {
  const back = (await looking(request, home, "previous"))[0]!;
  let visitor = await arrive(page, home);
  await visitor.button("Find heads…");
  await visitor.choose("Sort by", "previous");
  await expect(thumbs(page).locator("b").first()).toHaveText(back.name);

  visitor = await arrive(page, home);
  await visitor.click(thumbs(page).first());
  await visitor.click(cell(page), { position: { x: 200, y: 260 } });
  await visitor.click(page.getByText(/Rank all heads between/));
  await expect(rankedHeads(page).getByRole("listitem")).toHaveCount(10);

  for (const tokens of ["128", "512"]) {
    visitor = await arrive(page, home);
    await visitor.click(page.getByText("Text…", { exact: true }));
    await limit(page).fill(tokens);
    await textBox(page).fill(`${EXAMPLES[1]!.text} `.repeat(6));
    await page.keyboard.press("Control+Enter");
    await expect(analysed(page)).toContainText(`${tokens} tokens`);
    await visitor.click(thumbs(page).first());
    await expect.poll(() => colours(page, ".heatmap canvas")).toBeGreaterThan(10);
    await visitor.click(page.getByRole("button", { name: "Zoom in" }));
    await cell(page).hover({ position: { x: 240, y: 260 } });
    await expect(readout(page)).toHaveText(/\S+ \d+ → \S+ \d+ +A [\d.]+ +S /);
  }
});

test("experiments and comparisons: a masked word, heads off, two texts, two models", { tag: "@slow" }, async ({ watched: page, home }) => {
  let visitor = await arrive(page, home);
  await visitor.choose("Examples", "3");
  await visitor.tab("Experiment");
  await expect(bodyRows(predictions(page)).first()).toContainText("was");
  await visitor.click(page.getByRole("gridcell").getByRole("button").first());
  await expect(page.getByRole("region", { name: /^Predictions: / })).toContainText("After");

  visitor = await arrive(page, home);
  await visitor.tab("Compare");
  await visitor.click(page.getByRole("radio", { name: "Another text" }));
  await page.getByLabel("Second text", { exact: true }).fill("The harbour of the new town was built for warships.");
  await page.keyboard.press("Control+Enter");
  await expect(maps(page)).toHaveCount(3);
  await expect(figures(page)).toContainText("Tokens compared");

  visitor = await arrive(page, home);
  await visitor.tab("Compare");
  await visitor.click(page.getByRole("radio", { name: "Another model" }));
  await expect(page.getByLabel("Second model")).toHaveValue("twin");
  await expect(figures(page)).toContainText("Correlation");
});

test("a corpus and its report", { tag: "@slow" }, async ({ watched: page, home, context }, info) => {
  const file = info.outputPath("texts.txt");
  writeFileSync(file, "The cat sat on the mat.\nThe dog saw the cat.\n");
  const visitor = await arrive(page, home);
  await visitor.tab("Corpus");
  await page.getByLabel("Drop a file").setInputFiles(file); // dropped
  await visitor.button("Start the run");
  const opened = context.waitForEvent("page");
  await visitor.click(page.getByRole("link", { name: "Open the report" }).first()); // that of the newest run
  await expect((await opened).getByRole("heading", { level: 1 })).toHaveText("How this model pays attention");
});

test("a figure, the keyboard, an explanation of N, the way back", { tag: "@slow" }, async ({ watched: page, home }) => {
  let visitor = await arrive(page, home);
  await visitor.click(exportMenu(page));
  const saved = page.waitForEvent("download");
  await visitor.click(page.getByRole("button", { name: /^SVG/ }));
  expect((await saved).suggestedFilename()).toMatch(/\.svg$/);

  visitor = await arrive(page, home);
  await visitor.click(page.getByRole("button", { name: "Keys and help" }));
  await expect(page.getByRole("dialog", { name: "Keys and help" })).toContainText("previous, next head");
  await page.keyboard.press("Escape");
  await page.keyboard.press("2");
  await expect(view(page, "Maps")).toBeVisible();

  visitor = await arrive(page, home);
  await visitor.click(thumbs(page).first());
  await visitor.click(page.getByRole("button", { name: "What is: Normalised similarity N" }));
  await expect(page.locator(".explain-sheet:popover-open")).toContainText("so that 1 is the most similar pair");

  visitor = await arrive(page, home);
  await visitor.click(thumbs(page).first());
  await expect(view(page, "Maps")).toBeVisible();
  await settled(page);
  await visitor.tab("Heads");
  await expect(view(page, "Heads")).toBeVisible();
  await page.goBack();
  await expect(view(page, "Maps")).toBeVisible();
});

test("a server with a token, and one that is gone", { tag: "@slow" }, async ({ page, home }, info) => {
  const file = info.outputPath("token");
  writeFileSync(file, "open-sesame-1234\n");
  const guarded = await serve(`${info.parallelIndex}-token`, ["mini=../model/mini"], ["--token-file", file]);
  await open(page, guarded.home, "", true);
  await page.getByLabel("Token", { exact: true }).fill("open-sesame-1234");
  await page.keyboard.press("Enter");
  await expect(thumbs(page)).toHaveCount(144);
  await guarded.stop();

  const visitor = await arrive(page, home);
  await page.route("**/analyze", (route) => route.abort());
  await textBox(page).fill("Gone.");
  await visitor.button("Analyse");
  await expect(page.getByRole("alert")).toContainText("The server does not answer");
  await page.unroute("**/analyze");
  await visitor.button("Try again");
  await expect(analysed(page)).toContainText("4 tokens");
});
