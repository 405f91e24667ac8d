// The next question: which head does X, who ties these two, what changed.
import type { Page } from "@playwright/test";
import { expect, open, readout, test } from "./viewer";

const names = (page: Page): Promise<string[]> => page.locator(".thumb .figure b").allTextContents();

test("which head looks one word back: by label, sort, filter and search", async ({ watched: page, home, request }) => {
  await open(page, home);
  const thumbs = page.locator(".thumb");
  await expect(thumbs.nth(12 + 7)).toContainText("previous");
  await expect(thumbs.nth(12 + 6)).not.toContainText("previous");
  const text = await page.locator("#text").inputValue();
  const { attentions } = await (
    await request.post(`${home}analyze`, { data: { text, layers: "all", outputs: ["attentions"] } })
  ).json();
  const back = (attentions as number[][][][]).flatMap((layer, l) =>
    layer.map((map, h) => ({
      name: `${l}·${h}`,
      share: map.reduce((sum, row, i) => sum + (i ? row[i - 1]! : 0), 0) / map.length,
    })),
  );
  back.sort((a, b) => b.share - a.share);
  await page.getByLabel("Sort by").selectOption("previous");
  await expect.poll(async () => (await names(page)).slice(0, 3)).toEqual(back.slice(0, 3).map(({ name }) => name));
  await expect(thumbs.first()).toContainText(`${(100 * back[0]!.share).toFixed(0)}`.slice(0, 1));
  await page.getByLabel("Sort by").selectOption("none");
  const strong = back.filter(({ share }) => share > 0.51).map(({ name }) => name);
  await page.getByLabel("Heads that look").selectOption("previous");
  await expect(thumbs).not.toHaveCount(144);
  const filtered = await names(page);
  for (const name of strong) expect(filtered).toContain(name);
  await expect(page).toHaveURL(/only=previous/);
  await page.getByLabel("Heads that look").selectOption("all");
  await page.getByLabel("Find heads").fill("word back");
  await expect.poll(() => names(page)).toEqual(filtered);
  await page.getByLabel("Find heads").fill("7·5");
  await expect.poll(() => names(page)).toEqual(["7·5"]);
  await page.getByLabel("Find heads").fill("zzz");
  await expect(page.getByText("No head is of this kind")).toBeVisible();
});

test("a head says its pattern; the table sorts by it", async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=7");
  await expect(page.locator(".facts div", { hasText: "Pattern" })).toContainText(/previous \(.*previous 9\d\s%/);
  await open(page, home);
  await page.getByText("All figures as a table").click();
  const heads = page.locator(".alternative thead th");
  await expect(heads).toHaveCount(19);
  await heads.nth(1).getByRole("button").click();
  await expect(heads.nth(1)).toHaveAttribute("aria-sort", "ascending");
  const column = (await page.locator(".alternative tbody td:nth-child(2)").allTextContents()).filter((t) => t !== "–");
  expect(column).toEqual([...column].sort());
  expect(column).toContain("previous");
});

test("who ties these two: all heads ranked, either way and by similarity", async ({ watched: page, home, request }) => {
  const text = "The cat sat on the mat. The dog saw the cat.";
  const query = `text=${encodeURIComponent(text)}`;
  const { attentions, similarities } = await (
    await request.post(`${home}analyze`, {
      data: { text, layers: "all", outputs: ["attentions", "similarities"], normalize: "max" },
    })
  ).json();
  const best = (value: (l: number, h: number) => number): string[] =>
    (attentions as number[][][][])
      .flatMap((layer, l) => layer.map((_, h) => ({ name: `Layer ${l} head ${h}`, value: value(l, h) })))
      .sort((a, b) => b.value - a.value)
      .slice(0, 2)
      .map(({ name }) => name);
  const listed = async (): Promise<string[]> =>
    (await page.locator(".ranked button").allTextContents()).slice(0, 2);
  await open(page, home, `view=text&layer=1&head=4&${query}`);
  await page.locator(".token").nth(2).click();
  await page.locator(".token").nth(12).click({ modifiers: ["Shift"] });
  await page.getByText("Who ties “cat” 2 and “cat” 12").click();
  await expect.poll(async () => (await listed())[0]).toBe(best((l, h) => attentions[l][h][2][12])[0]);
  await page.getByRole("radio", { name: "Second attends to first" }).check();
  await expect.poll(async () => (await listed())[0]).toBe(best((l, h) => attentions[l][h][12][2])[0]);
  await page.locator(".ties").getByRole("radio", { name: "Similarity" }).check();
  await expect.poll(async () => (await listed())[0]).toBe(best((l, h) => similarities[l][h][2][12])[0]);
  await expect(page.locator(".head-map td")).toHaveCount(144);
  await open(page, home, `view=head&layer=1&head=4&pin=2.12&ties=1&${query}`);
  await expect.poll(async () => (await listed())[0]).toBe(best((l, h) => attentions[l][h][2][12])[0]);
  await page.locator(".head-map td").nth(5 * 12 + 3).click();
  await expect(page).toHaveURL(/layer=5&head=3/);
  await expect(readout(page)).toContainText("cat 2 → cat 12");
});
