// The corpus report: whole without a script, another choice with one, and figures as files for a paper.
import { expect, test, type Locator, type Page } from "@playwright/test";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

let folder = "", address = "";

test.beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "headscope-report-"));
  const texts = Array.from({ length: 24 }, (_, n) => `The dog ${n} saw the cat. The cat ran, and the dog ran after it. Then it was ${n}.`);
  writeFileSync(join(folder, "in.txt"), texts.join("\n"));
  execFileSync(process.env.HEADSCOPE!, ["corpus", join(folder, "in.txt"), "-o", join(folder, "out")], { stdio: "pipe" });
  address = `file://${join(folder, "out", "report.html")}`;
});
const choose = (page: Page, label: string, option: string): Promise<string[]> =>
  page.getByRole("combobox", { name: new RegExp(`^${label}`) }).selectOption({ label: option });
// A square picture's pixels, four bytes each.
const pixels = (image: Locator): Promise<{ side: number; data: number[] }> =>
  image.evaluate(async (node) => {
    const picture = new Image();
    picture.src = node.getAttribute("xlink:href")!;
    await picture.decode();
    const canvas = document.createElement("canvas");
    const side = (canvas.width = canvas.height = picture.naturalWidth);
    const g = canvas.getContext("2d")!;
    g.drawImage(picture, 0, 0);
    return { side, data: [...g.getImageData(0, 0, side, side).data] };
  });
test.afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("figures, findings and tables are there without a script, inside their boxes at every width", async ({ browser }) => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(address);
  await expect(page.getByRole("figure")).toHaveCount(21);
  await expect(page.locator("#heads tbody tr")).toHaveCount(13);
  expect(await page.locator("image:not([*|href^='data:image/png'])").count()).toBe(0);
  for (const width of [390, 760, 1006, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    const widths = await page.getByRole("figure").evaluateAll((all) => all.map((one) => one.querySelector("svg")!.getBoundingClientRect().width));
    expect(Math.min(...widths)).toBeGreaterThan(0);
    const box = (await page.locator("#findings").boundingBox())!;
    for (const verdict of await page.locator("#findings .holds").all()) {
      const at = (await verdict.boundingBox())!;
      expect(at.x + at.width).toBeLessThanOrEqual(box.x + box.width);
    }
    const columns = page.locator("table.examples").first().locator("tr:first-child > :last-child");
    const [head, cell] = await columns.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().left));
    expect(cell).toBe(head); // a column stands below its name
  }
  await context.close();
});

test("a comparison of runs reads without a script at every width; with one its figures can be saved", { tag: "@slow" }, async ({ browser, page }) => {
  const copy = join(folder, "copy"), compared = join(folder, "comparison.html");
  cpSync(join(folder, "out"), copy, { recursive: true });
  execFileSync(process.env.HEADSCOPE!, ["report", join(folder, "out"), copy, "-o", compared], { stdio: "pipe" });
  const context = await browser.newContext({ javaScriptEnabled: false });
  const plain = await context.newPage();
  for (const width of [390, 1280]) {
    await plain.setViewportSize({ width, height: 800 });
    await plain.goto(`file://${compared}`);
    expect(await plain.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    await expect(plain.getByRole("heading", { level: 1 })).toHaveText("2 runs compared");
    await expect(plain.getByRole("figure")).toHaveCount(27);
    for (const figure of await plain.getByRole("figure").all()) await expect(figure.locator("svg").first()).toBeVisible();
  }
  await context.close();
  await page.goto(`file://${compared}`);
  await expect(page).toHaveTitle("2 runs compared · headscope");
  const download = page.waitForEvent("download");
  await page.locator("#figure-mean_distance").getByRole("button", { name: "SVG" }).click();
  const saved = await download;
  expect(saved.suggestedFilename()).toBe("figure-mean_distance.svg");
  expect(readFileSync(await saved.path(), "utf8")).toContain("Mean distance of high pairs");
});

test("what is chosen is shown, and is in the address", async ({ page }) => {
  await page.goto(address);
  await choose(page, "Layer", "3");
  await choose(page, "Threshold", "0.5");
  await choose(page, "Colours", "5th to 95th percentile");
  await expect(page).toHaveURL(/#layer=3&threshold=0.5&range=95$/);
  await expect(page.getByRole("heading", { name: "Heads of layer 3 at threshold 0.5", exact: true })).toBeVisible();
  const map = page.locator("#figure-10 svg").first();
  await expect(map.locator("title")).toHaveText("Layer 3, head 0");
  const high = await map.locator("[data-name=high]").textContent();
  const again = await page.context().newPage();
  await again.goto(`${page.url().replace("#", "#figure-10&")}`);
  await expect(again.locator("#figure-10 svg title").first()).toHaveText("Layer 3, head 0");
  await expect(again.locator("#figure-10 [data-name=high]").first()).toHaveText(high!);
  await choose(again, "Colours", "all of it");
  await again.locator("#figure-10 image[data-name]").first().hover();
  await expect(again.locator(".reading")).toContainText("Layer 3, head 0: row");
});

test("values below 0 have colours of their own, in every range", async ({ page }) => {
  await page.goto(address);
  const maps = await page.locator("#figure-12 svg", { has: page.locator("[data-name=middle]", { hasText: /^0$/ }) }).all();
  // Red minus blue of each pixel.
  const warmthOf = async (one: (typeof maps)[number]): Promise<number[]> => {
    const { side, data } = await pixels(one.locator("image[data-name]"));
    return Array.from({ length: side * side }, (_, k) => data[4 * k]! - data[4 * k + 2]!);
  };
  // The map with most cells below 0: it depends on the weights.
  const below = await Promise.all(maps.map(async (one) => (await warmthOf(one)).filter((w) => w < -4).length));
  const map = maps[below.indexOf(Math.max(...below))]!;
  const warmth = (): Promise<number[]> => warmthOf(map);
  const drawn = await warmth();
  for (const range of ["all of it", "5th to 95th percentile", "1st to 99th percentile"]) {
    await choose(page, "Colours", range);
    const [high, middle, low] = await map.locator("text[data-name]").allTextContents();
    expect([low, middle]).toEqual([`-${high}`, "0"]);
    const again = await warmth();
    const pairs = drawn.map((w, k) => [w, again[k]!] as const).filter(([w]) => w < -4 || w > 12); // 8 at 0
    expect(pairs.filter(([w]) => w < 0)).not.toEqual([]);
    expect(pairs.filter(([w]) => w > 0)).not.toEqual([]);
    expect(pairs.filter(([w, a]) => (w < 0 ? a > 8 : a < 8))).toEqual([]);
  }
});

test("each of twelve heads has a chart of its own, with its name on it", async ({ page }) => {
  await page.goto(address);
  const names = await page.locator("#figure-8 text", { hasText: /^head \d+$/ }).allTextContents();
  expect(names).toEqual(Array.from({ length: 12 }, (_, h) => `head ${h}`));
});

test("another report is drawn below this one, at the same choice", { tag: "@slow" }, async ({ page }) => {
  await page.goto(address);
  await page.locator(".choices input[type=file]").setInputFiles(join(folder, "out", "report.html"));
  await expect(page.locator("figure .other")).toHaveCount(21);
  await choose(page, "Layer", "2");
  for (const row of ["#figure-10 .panels:not(.other)", "#figure-10 .other"])
    await expect(page.locator(`${row} svg title`).first()).toHaveText("Layer 2, head 0");
  const pictures = await page.locator("#figure-10 image[data-name]").evaluateAll((all) => all.map((image) => image.getAttribute("xlink:href")));
  expect(pictures).toHaveLength(24);
  expect(pictures.slice(0, 12)).toEqual(pictures.slice(12));
  await page.locator(".choices input[type=file]").setInputFiles({ name: "no.html", mimeType: "text/html", buffer: Buffer.from("<p>") });
  await expect(page.locator(".reading")).toContainText("no.html is no report");
});

test("another report runs nothing and loads nothing, whoever wrote it", { tag: "@slow" }, async ({ page }) => {
  const source = readFileSync(join(folder, "out", "report.html"), "utf8");
  const [, data] = /id="data"[^>]*>([^<]*)</.exec(source)!;
  const evil = [
    '<img src=x onerror="window.ran=1">',
    '<script>window.ran=1</script>',
    '<a href="javascript:window.ran=1">u</a>',
    '<iframe srcdoc="<script>parent.ran=1"></iframe>',
    '<g onclick="window.ran=1" style="fill:url(//h/x)"/>',
    '<foreignObject><img src=y onerror="window.ran=1">',
    '<rect fill="url(http://127.0.0.1:9/paint)"/>',
    '<image href="http://127.0.0.1:9/picture"/>',
  ];
  // In place of frames, as long as they are: nothing else moves.
  let n = 0;
  const hostile = gunzipSync(Buffer.from(data!, "base64")).toString("latin1")
    .replace(/<rect [^>]*stroke="#9aa0a6"[^>]*>/g, (frame) => evil[n++ % evil.length]!.padEnd(frame.length));
  expect(n).toBeGreaterThan(evil.length);
  const packed = gzipSync(Buffer.from(hostile, "latin1")).toString("base64");
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(address);
  await page.locator(".choices input[type=file]").setInputFiles({ name: "evil.html", mimeType: "text/html", buffer: Buffer.from(source.replace(data!, packed)) });
  await expect(page.locator("figure .other")).toHaveCount(21);
  await expect(page.locator("#figure-2 .other image[data-name]").first()).toHaveAttribute("xlink:href", /^data:image/);
  expect(await page.locator(".other :is(img, script, iframe, foreignObject, [onerror], [onclick], [href^=javascript], [href^=http], [fill*=http])").count()).toBe(0);
  expect(await page.evaluate(() => "ran" in window)).toBe(false);
  expect(requests.filter((url) => !/^(file|data|blob):/.test(url))).toEqual([]);
});

test("cells that no text reaches are blank, in the picture and under the pointer", async ({ page }) => {
  await page.goto(address);
  const corners = async (): Promise<number[]> => {
    const { side, data } = await pixels(page.locator("#figure-2 image[data-name]").first());
    return [0, side - 1, side * (side - 1), side * side - 1].map((k) => Math.min(data[4 * k]!, data[4 * k + 2]!));
  };
  // Texts have some thirty tokens, in a window of 128. White is no colour of the palette.
  for (const range of ["1st to 99th percentile", "all of it"]) {
    await choose(page, "Colours", range);
    const [first, ...others] = await corners();
    expect(first).toBeLessThan(252);
    expect(others).toEqual([255, 255, 255]);
  }
  await page.locator("#figure-2 image[data-name]").first().hover({ position: { x: 130, y: 5 } });
  await expect(page.locator(".reading")).toContainText("no text reaches it");
  await expect(page.locator("#figure-2")).toContainText("Cells that no text reaches are left blank.");
});

test("figures are saved as CSV, SVG and PNG", async ({ page }) => {
  await page.goto(address);
  const saved = async (figure: string, kind: string): Promise<Buffer> => {
    const download = page.waitForEvent("download");
    await page.locator(`${figure} .save`).getByRole("button", { name: kind, exact: true }).click();
    return readFileSync(await (await download).path());
  };
  expect((await saved("#figure-6a", "CSV")).toString()).toContain("head,bin_from,bin_to,texts,share_of_texts");
  const svg = (await saved("#figure-12", "SVG")).toString();
  expect(svg).toContain("data:image/png;base64,");
  expect(svg).toContain('fill="#ffffff"');
  expect((await saved("#figure-2", "PNG")).subarray(1, 4).toString()).toBe("PNG");
});

test("a figure is printed alone on a page of its size, with its fonts, then the page is as before", async ({ page }) => {
  // No dialog opens without a screen: the page waits as if one were open, until the browser has written the PDF.
  await page.addInitScript(() => void (window.print = () => undefined));
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(address);
  await expect(page).toHaveTitle(/24 texts/);
  const title = await page.title();
  const path = join(folder, "figure.pdf");
  for (const figure of ["figure-2", "figure-9"]) {
    await page.locator(`#${figure} .save`).getByRole("button", { name: "PDF" }).click();
    await expect(page).toHaveTitle(figure);
    const [width, height] = await page.locator(".alone > svg").evaluate((paper) => ["width", "height"].map((name) => parseFloat(paper.getAttribute(name)!)));
    await page.pdf({ path, preferCSSPageSize: true, printBackground: true });
    await expect(page).toHaveTitle(title);
    await expect(page.locator(".alone")).toHaveCount(0);
    const read = (tool: string, ...options: string[]): string => execFileSync(tool, [...options, path], { encoding: "utf8" });
    const [, pages, wide, high] = /Pages: +(\d+)[^]*Page size: +([\d.]+) x ([\d.]+)/.exec(read("pdfinfo"))!;
    expect(pages).toBe("1");
    expect(Math.abs(Number(wide) - width!)).toBeLessThan(1);
    expect(Math.abs(Number(high) - height!)).toBeLessThan(1);
    const fonts = read("pdffonts").trim().split("\n").slice(2);
    expect(fonts).not.toEqual([]);
    for (const font of fonts) expect(font).toMatch(/ yes +yes +yes +\d+ +\d+$/); // embedded, a subset, with its characters
    const text = execFileSync("pdftotext", [path, "-"], { encoding: "utf8" });
    for (const words of figure === "figure-2" ? ["Layer 1, head 0", "Layer 11, all heads", "query position"] : ["most pairs of the same token", "the dog 0", "fewest pairs"])
      expect(text).toContain(words);
    expect(text).not.toContain("Summed attention"); // the page's own heading
  }
});
