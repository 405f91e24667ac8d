// Similar heads, sorted by distance from one.
import type { APIRequestContext } from "@playwright/test";
import { expect, findHeads, open, test, thumbs, view } from "./viewer";

const TEXT = "The cat sat on the mat. The dog saw the cat, and ran.";
const QUERY = `text=${encodeURIComponent(TEXT)}`;
const nearest = async (request: APIRequestContext, home: string, place: number): Promise<string[]> => {
  const { head_distances } = await (
    await request.post(`${home}analyze`, { data: { text: TEXT, layers: "all", outputs: ["head_distances"], digits: 9 } })
  ).json();
  return (head_distances[place] as (number | null)[])
    .map((distance, k) => ({ k, distance }))
    .filter(({ k, distance }) => k !== place && distance !== null)
    .sort((a, b) => a.distance! - b.distance! || a.k - b.k)
    .map(({ k }) => `${Math.floor(k / 12)}·${k % 12}`);
};

test("heads like one: nearest first, from the search and from the head itself", async ({ watched: page, home, request }) => {
  await open(page, home, `view=head&layer=7&head=5&${QUERY}`);
  await page.getByRole("button", { name: "Heads like this one" }).click();
  await expect(view(page, "Heads")).toBeVisible();
  await expect(page.getByLabel("Find heads")).toHaveValue("like 7·5");
  const order = ["7·5", ...(await nearest(request, home, 7 * 12 + 5))];
  await expect.poll(() => thumbs(page).locator("b").allTextContents()).toEqual(order);
  await expect(thumbs(page).locator(".figure").first()).toHaveText("7·5 at 0");
  await page.getByLabel("Find heads").fill("like 40·5");
  await expect(page.getByText("No head has this pattern")).toBeVisible();
});

test("previous token and repeated tokens are found by their words; where no head is known for it, the strongest are offered", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, QUERY);
  await findHeads(page);
  await page.getByLabel("Find heads").fill("previous token");
  await expect
    .poll(async () => [...new Set(await thumbs(page).locator(".figure span").allTextContents())])
    .toEqual(["previous"]);
  await open(page, home, "text=The+cat+sat."); // nothing is repeated
  await page.getByLabel("Find heads").fill("repeated tokens");
  await expect(page.getByText("No head has this pattern")).toBeVisible();
  await page.getByRole("button", { name: "Show all, sorted by: attention: repeats" }).click();
  await expect(page).toHaveURL(/sort=repeated/);
  await expect(thumbs(page)).toHaveCount(144);
  await page.getByLabel("Find heads").fill("like 40·5");
  await expect(page.getByText("No head has this pattern")).toBeVisible();
  await expect(page.getByRole("button", { name: /^Show all, sorted by/ })).toBeHidden();
});
