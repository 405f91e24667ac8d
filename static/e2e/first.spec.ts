// Checks what a first visit sees: a short text whose tokens are all named, a telling head, and all heads at once.
import type { Page } from "@playwright/test";
import { EXAMPLES } from "../src/app/examples";
import { colours, expect, firstText, LONG, open, ranked, settled, taskTest, test, view } from "./viewer";

for (const width of [1280, 390])
  test(`the first text is short, and Head opens on a telling head with every token named: ${width} px`, async ({
    watched: page,
    home,
    request,
  }) => {
    await page.setViewportSize({ width, height: 844 });
    const { tokens, summary } = await firstText(request, home, { outputs: ["summary"] });
    expect(tokens.length).toBeLessThanOrEqual(25);
    const telling = ranked(
      summary as { snr_dprime: number | null; high_pairs: number }[][],
      ({ snr_dprime, high_pairs }) => (high_pairs < 10 ? -Infinity : (snr_dprime ?? -Infinity)),
    )[0]!;
    await open(page, home, "view=head");
    await expect.poll(() => colours(page, ".plate .heatmap canvas")).toBeGreaterThan(5);
    await settled(page);
    await expect(page.locator(".head-picker select")).toHaveValue(String(telling.layer));
    await expect(page.locator(".strip-heads [aria-pressed=true]")).toContainText(String(telling.head));
    await expect(page.locator(".map-note").first()).toHaveText("");
  });

test("a long text is one choice away", async ({ watched: page, home }) => {
  await open(page, home);
  await page.getByLabel("Examples").selectOption({ label: EXAMPLES[1]!.name });
  await expect(page.locator(".facts-line")).toContainText("128 tokens (cut)");
});

test("a head opens in the colours of its thumbnail: the square root, attention from 0 to 1", async ({ watched: page, home }) => {
  await open(page, home);
  await settled(page);
  await page.locator(".thumb.chosen").click();
  await expect(view(page, "Head")).toBeVisible();
  await expect(page.getByRole("radio", { name: "Root" })).toBeChecked();
  const bars = page.locator(".plate .colour-bar");
  await expect(bars.first()).toContainText("square root, 0 to 1.00");
  await expect(bars.nth(1)).toContainText("square root, −");
});

test("arrow keys count while the maps are still computed, and when a text is analysed", async ({ watched: page, home }) => {
  let answer: () => void = () => {};
  const hold = (): Promise<void> => new Promise((done) => (answer = done));
  let held = hold();
  await page.route("**/analyze*", async (route) => {
    await held;
    await route.continue();
  });
  await open(page, home);
  const thumb = (head: string) => page.locator(`.thumb[data-head='${head}']`);
  await thumb("0.0").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await expect(thumb("1.1")).toBeFocused();
  answer();
  await settled(page);
  await expect(thumb("1.1")).toBeFocused();
  held = hold();
  await page.evaluate(() => (location.hash += "&pair=Yes."));
  await expect(page.locator(".grid.early")).toBeAttached();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  answer();
  await settled(page);
  await expect(thumb("1.3")).toBeFocused();
});

taskTest("a model for fewer than 128 tokens opens, and cuts a long text at its own limit", async ({ watched: page, home }) => {
  await open(page, home, `model=short&${LONG}`);
  await expect(page.locator(".facts-line")).toContainText("32 tokens (cut)");
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(5);
  await expect(page.locator(".problem")).toHaveCount(0);
  for (const name of ["Text", "Pairs", "Experiment", "Trace", "Compare"]) {
    await page.getByRole("button", { name, exact: true }).click();
    await expect(view(page, name)).toBeVisible();
    await settled(page);
    await expect(page.locator(".problem")).toHaveCount(0);
  }
});

// The map within the window's free part, between the bars.
const inSight = (page: Page, n: number): Promise<boolean> =>
  page.locator(".plate .heatmap").nth(n).evaluate((map) => {
    const { top, bottom } = map.getBoundingClientRect();
    const bar = document.querySelector(".top")!;
    const above = getComputedStyle(bar).position === "sticky" ? bar.getBoundingClientRect().bottom : 0;
    return top >= above && bottom <= document.querySelector(".readout")!.getBoundingClientRect().top;
  });

test("both maps of a head are entirely in sight, and one at twice the size", async ({ watched: page, home }) => {
  await open(page, home, "view=head");
  await settled(page);
  expect([await inSight(page, 0), await inSight(page, 1)]).toEqual([true, true]);
  await page.setViewportSize({ width: 640, height: 400 }); // 1280 × 800 at 200 %
  await settled(page);
  await page.locator(".plate .heatmap").first().evaluate((map) => map.scrollIntoView({ block: "end" }));
  await page.mouse.wheel(0, 40);
  await expect.poll(() => inSight(page, 0)).toBe(true);
});

test("few stops of the keyboard lie before the heads, and one “?” explains a row", async ({ watched: page, home }) => {
  await open(page, home);
  await settled(page);
  const stops = async (): Promise<number> => {
    for (let n = 1; n < 60; n++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(() => document.activeElement!.matches(".thumb"))) return n;
    }
    return Infinity;
  };
  expect(await stops()).toBeLessThanOrEqual(36); // 55 once
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  expect(await stops()).toBeLessThanOrEqual(9); // 16 once
  for (const name of ["Overview", "Head", "Text", "Pairs", "Compare", "Experiment", "Trace"]) {
    await page.getByRole("navigation").getByRole("button", { name, exact: true }).click();
    await settled(page);
    const [row] = await view(page, name).locator(".toolbar:has(> .ends)").all();
    await expect(row!.locator(".what")).toHaveCount(1);
    expect((await row!.boundingBox())!.height, name).toBeLessThan(60);
  }
});
