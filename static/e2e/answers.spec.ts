// The next question: which head does X, who ties these two, what changed.
import type { Page } from "@playwright/test";
import { expect, open, readout, test, view } from "./viewer";

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
