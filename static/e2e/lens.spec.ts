// The lens of all tokens: layers across, tokens down, before and after a change.
import { expect, findings, LONG, open, readout, settled, test } from "./viewer";

const TEXT = "The old bridge [MASK] closed after the war.";
const QUERY = `view=experiment&lens=1&lensed=all&text=${encodeURIComponent(TEXT)}`;
const LENS = { outputs: ["predictions"], predictions: { positions: "all", top_k: 5, lens: true } };
type Reading = { top: { token: string }[] };

test("every token after every layer, by pointer and by keys, before and after", async ({ watched: page, home, request }) => {
  const ask = async (body: object): Promise<Reading[][]> =>
    (await (await request.post(`${home}analyze`, { data: { text: TEXT, ...LENS, ...body } })).json()).predictions.map((one: { layers: Reading[] }) => one.layers);
  await open(page, home, QUERY);
  const cells = page.locator(".lens-body .scroll td");
  await expect(cells).toHaveCount(11 * 13);
  const before = await ask({});
  expect(await cells.allTextContents()).toEqual(before.flat().map(({ top }) => top[0]!.token));
  await page.locator('[data-at="4.12"]').hover();
  await expect(readout(page)).toContainText("[MASK] 4, after layer 11");
  await expect(page.locator(".lens-body .card tbody tr")).toHaveCount(5);
  await page.locator(".lens-body .scroll td[tabindex='0']").focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Home");
  await expect(page.locator('[data-at="3.0"]')).toBeFocused();
  await page.getByRole("grid").getByRole("button", { name: /layer 0, head 0\b/i }).click();
  await expect(page.getByRole("radio", { name: "After", exact: true })).toBeChecked();
  const after = await ask({ interventions: [{ layers: [0], heads: [0], kind: "zero" }] });
  await expect.poll(() => cells.allTextContents()).toEqual(after.flat().map(({ top }) => top[0]!.token));
  const moved = after.flat().filter(({ top }, n) => top[0]!.token !== before.flat()[n]!.top[0]!.token).length;
  await expect(page.locator(".lens-body .moved")).toHaveCount(moved);
  await page.getByRole("radio", { name: "Before", exact: true }).check();
  await expect(page.locator(".lens-body .moved")).toHaveCount(0);
});

test("a long text shows some tokens at a time; axe finds nothing on a dark phone", { tag: "@slow" }, async ({ watched: page, home }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await open(page, home, `${LONG}&view=experiment&lens=1&lensed=all&at=3`);
  await expect(page.locator(".lens-body .scroll tbody tr")).toHaveCount(64);
  await page.getByRole("combobox", { name: "Tokens", exact: true }).selectOption("64");
  await expect(page.locator(".lens-body .scroll tbody th").first()).toContainText("64");
  await settled(page);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  expect(await findings(page)).toEqual([]);
});
