// A text longer than what the model is given at once, stepped through window by window.
import type { Page } from "@playwright/test";
import { expect, findings, LONG, open, reload, settled, test, textOptions } from "./viewer";

const steps = (page: Page) => page.getByRole("toolbar", { name: "Windows of the text" });

interface Answer {
  tokens: string[];
  windows: number;
  window: { chars: [number, number] };
}

test("a long text is stepped through window by window", async ({ watched: page, home, request }) => {
  const text = decodeURIComponent(LONG.slice("text=".length));
  const ask = async (window: number): Promise<Answer> =>
    (await request.post(`${home}analyze`, { data: { text, max_tokens: 40, window, outputs: [] } })).json();
  const { windows: n } = await ask(0);
  expect(n).toBeGreaterThan(3);
  await open(page, home, `view=text&max=40&${LONG}`);
  await expect(steps(page)).toContainText(`Window 1 of ${n}`);
  await expect(steps(page).getByRole("button", { name: "Previous window" })).toBeDisabled();
  await steps(page).getByRole("button", { name: "Next window" }).click();
  await expect(steps(page)).toContainText(`Window 2 of ${n}`);
  await expect(page).toHaveURL(/window=1(&|$)/);
  await settled(page);
  // The text before and after the window is grey.
  const second = await ask(1);
  const rest = page.getByRole("region", { name: "Text", exact: true }).locator(".rest");
  await expect(rest).toHaveText([text.slice(0, second.window.chars[0]).trim(), text.slice(second.window.chars[1]).trim()]);
  expect(await findings(page)).toEqual([]);
  await reload(page);
  await expect(steps(page)).toContainText(`Window 2 of ${n}`);
});

test("keys step through windows, and back", async ({ watched: page, home }) => {
  await open(page, home, `max=100&${LONG}`);
  await expect(steps(page)).toContainText("Window 1 of");
  const n = Number(/of (\d+)/.exec((await steps(page).textContent())!)![1]);
  await page.locator("body").press("<");
  await expect(steps(page)).toContainText(`Window 1 of ${n}`);
  for (let k = 2; k <= n; k++) {
    await page.locator("body").press(">");
    await expect(steps(page)).toContainText(`Window ${k} of ${n}`);
    await settled(page);
  }
  await expect(steps(page).getByRole("button", { name: "Next window" })).toBeDisabled();
  await page.locator("body").press("<");
  await expect(steps(page)).toContainText(`Window ${n - 1} of ${n}`);
});

test("a pair is cut elsewhere than its windows, and a new text has none", async ({ watched: page, home }) => {
  await open(page, home, `max=24&pair=${encodeURIComponent("The river flows past the old bridge. ".repeat(6))}&text=The%20war.`);
  await expect(steps(page)).toContainText(/Window 1 of \d|Cut off; it has \d windows/);
  await steps(page).getByRole("button", { name: "Next window" }).click();
  await expect(page).toHaveURL(/window=\d/);
  await settled(page);
  await textOptions(page);
  await page.getByRole("textbox", { name: "Second segment" }).fill("");
  await page.getByRole("button", { name: "Analyse" }).click();
  await settled(page);
  await expect(steps(page)).toHaveCount(0);
  await expect(page).not.toHaveURL(/window=/);
});
