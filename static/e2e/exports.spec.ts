// Saved files show the same as the screen.
import { readFileSync, writeFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { expect, open, test } from "./viewer";

async function save(page: Page, name: string): Promise<Buffer> {
  await page.locator(".menu summary").click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: new RegExp(`^${name}`) }).click(),
  ]);
  await page.keyboard.press("Escape");
  const bytes = readFileSync((await download.path())!);
  if (process.env.KEEP) writeFileSync(`${process.env.KEEP}/${download.suggestedFilename()}`, bytes);
  return bytes;
}
const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;
const TEXT = "text=The+cat+sat+on+the+mat.+The+dog+saw+the+cat.";

test("head: overlay, sentence lines and held cell are in the picture, scales in words", async ({
  watched: page,
  home,
}) => {
  await open(page, home, `view=head&layer=1&head=4&${TEXT}`);
  await expect(page.locator(".facts[data-exact=true]")).toBeVisible();
  const plain = (await save(page, "SVG")).toString();
  expect(plain).toContain(">linear, ");
  await page.getByLabel("Overlay").selectOption("mask");
  await page.locator(".toolbar").getByLabel("Sentences").check();
  const masked = (await save(page, "SVG")).toString();
  expect(count(masked, /opacity="0.3"/g)).toBeGreaterThan(1);
  expect(count(masked, /opacity="0.55"/g)).toBe(4); // one boundary, both ways, on both maps
  await page.getByLabel("Overlay").selectOption("pairs");
  await expect(page).toHaveURL(/overlay=pairs/);
  const pairs = (await save(page, "SVG")).toString();
  expect(count(pairs, /<rect/g)).toBeGreaterThan(count(plain, /<rect/g) + 4);
  await page.locator(".heatmap canvas").nth(1).click({ position: { x: 200, y: 200 } });
  await expect(page).toHaveURL(/pin=/);
  const held = (await save(page, "SVG")).toString();
  const accent = await page.evaluate(() =>
    getComputedStyle(document.documentElement).getPropertyValue("--accent").trim(),
  );
  expect(count(held, new RegExp(`stroke="${accent}"`, "g"))).toBe(2);
});

test("overview: the order on screen, in picture and table", async ({ watched: page, home }) => {
  await open(page, home, `sort=attention_entropy&down=0&${TEXT}`);
  await expect(page.locator(".grid.sorted")).toBeVisible();
  await expect.poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length)).toBe(1);
  const order = await page.locator(".thumb .figure b").allTextContents();
  const csv = (await save(page, "CSV")).toString().split("\r\n").slice(1, 145);
  expect(csv.map((line) => line.split(",").slice(0, 2).join("·"))).toEqual(order);
  const picture = (await save(page, "SVG")).toString();
  expect([...picture.matchAll(/>(\d+·\d+)<\/text>/g)].map((m) => m[1])).toEqual(order);
  expect(picture).toContain("Attention entropy");
});

test("text and pairs: legend, bands and histogram are in the picture", async ({ watched: page, home }) => {
  await open(page, home, `view=text&layer=1&head=4&bands=1&${TEXT}`);
  await expect(page.locator(".segments")).toBeVisible();
  await expect(page.locator(".arcs rect").first()).toBeAttached();
  const bands = await page.locator(".arcs rect").count();
  const text = (await save(page, "SVG")).toString();
  expect(text).toContain(">Similar to</text>");
  expect(text).toContain(">linear, ");
  const fills = await page.locator(".arcs rect").evaluateAll((all) => all.map((r) => r.getAttribute("fill")));
  expect(fills.filter((fill) => text.includes(`fill="${fill}"`))).toHaveLength(bands);
  await page.keyboard.press("4");
  await expect(page.locator(".chart canvas")).toBeVisible();
  const pairs = (await save(page, "SVG")).toString();
  expect(pairs).toContain("Distances of the pairs shown");
  expect(count(pairs, /<image/g)).toBe(1);
});

test("arrays for NumPy: floats, negatives kept; both sides of a comparison", async ({ watched: page, home }) => {
  await open(page, home, `${TEXT}&tau=0.5`);
  await expect(page.locator(".thumb")).toHaveCount(144);
  const asked = page.waitForRequest((r) => r.url().endsWith("format=npz"));
  await save(page, "npz");
  const body = (await asked).postDataJSON();
  expect(body).toMatchObject({ dtype: "f4", layers: "all", threshold: 0.5 });
  expect(body.normalize).toBeUndefined();
  expect(body.outputs).toEqual(["attentions", "similarities", "summary"]);
  await open(page, home, `view=compare&layer=1&head=4&layer2=7&head2=5&${TEXT}`);
  await expect(page.locator(".facts")).toContainText("Correlation");
  const both = (await save(page, "npz")).toString("latin1");
  for (const name of ["first_similarities.npy", "second_similarities.npy", "first_tokens.npy", "second_request.npy"])
    expect(both).toContain(name);
});

test("the maps of all heads are in the picture, in a table and in the arrays", async ({ watched: page, home }) => {
  await open(page, home, `view=head&layer=1&head=4&pin=2.8&ties=1&${TEXT}`);
  await expect.poll(() => page.locator(".head-map td").allTextContents()).toHaveLength(144);
  await expect(page.locator(".head-map td", { hasText: "–" })).toHaveCount(0);
  const cells = await page.locator(".head-map td").allTextContents();
  const written = await page.locator(".head-map .ranked b").first().textContent();
  const picture = (await save(page, "SVG")).toString();
  expect(picture).toContain("layers down, heads across");
  expect(picture).toContain(`>${written}</text>`);
  const table = (await save(page, "CSV of heads")).toString().trim().split("\r\n");
  expect(table[0]).toBe("layer,head,attention_to");
  expect(table).toHaveLength(145);
  table.slice(1).forEach((row, i) => {
    const value = Number(row.split(",")[2]);
    // A cell shows three digits, or two of a power of ten.
    expect(Math.abs(Number(cells[i]!.replaceAll("−", "-")) - value)).toBeLessThanOrEqual(0.051 * value);
  });
  const arrays = (await save(page, "npz")).toString("latin1");
  for (const name of ["attention_to.npy", "similarities.npy", "tokens.npy"]) expect(arrays).toContain(name);
  await open(page, home, `view=compare&against=off&layer=9&head=3&layer2=5&head2=2&changes=1&${TEXT}`);
  await expect(page.locator(".head-map tbody tr")).toHaveCount(12);
  expect((await save(page, "SVG")).toString()).toContain("Change of similarity of each head");
  expect((await save(page, "npz")).toString("latin1")).toContain("similarity_change.npy");
});

test("the copied request gives the figures seen", async ({ watched: page, home, context, request }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, home, `view=head&layer=1&head=4&tau=0.45&${TEXT}`);
  await expect(page.locator(".facts[data-exact=true]")).toBeVisible();
  await expect(page).toHaveURL(/tau=0.45/);
  const seen = await page.locator(".facts div", { hasText: "High pairs" }).locator("dd").textContent();
  await page.locator(".menu summary").click();
  await page.getByRole("button", { name: /^curl/ }).click();
  await expect(page.locator(".sheet p")).toContainText("Copied");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const body = JSON.parse(/-d '(.*)' -o/s.exec(copied)![1]!);
  const answer = await (await request.post(`${home}analyze`, { data: body })).json();
  expect(String(answer.summary[0][0].high_pairs)).toBe(seen);
});

test("a menu that is opened before the answer is filled by it", async ({ watched: page, home }) => {
  let answer = (): void => {};
  const menu = page.locator(".menu");
  await page.route("**/analyze", async (route) => {
    await new Promise<void>((done) => (answer = done));
    await route.continue();
  });
  const asked = page.waitForRequest("**/analyze");
  await open(page, home, `view=head&layer=1&head=4&${TEXT}`);
  await asked;
  await menu.locator("summary").click();
  await expect(menu.getByRole("status")).toHaveText("There is nothing to save yet.");
  answer();
  await expect(menu.getByRole("button", { name: /^SVG/ })).toBeVisible();
  await expect(menu).not.toContainText("nothing to save");
});
