// Similar heads: as points of the plane, and sorted by distance from one.
import type { APIRequestContext, Page } from "@playwright/test";
import { expect, open, readout, reload, test, view, saved } from "./viewer";

const TEXT = "The cat sat on the mat. The dog saw the cat, and ran.";
const QUERY = `text=${encodeURIComponent(TEXT)}`;
const nearest = async (request: APIRequestContext, home: string, head_distance: string, place: number): Promise<string[]> => {
  const { head_distances } = await (
    await request.post(`${home}analyze`, { data: { text: TEXT, layers: "all", outputs: ["head_distances"], head_distance, digits: 9 } })
  ).json();
  return (head_distances[place] as (number | null)[])
    .map((distance, k) => ({ k, distance }))
    .filter(({ k, distance }) => k !== place && distance !== null)
    .sort((a, b) => a.distance! - b.distance! || a.k - b.k)
    .map(({ k }) => `${Math.floor(k / 12)}·${k % 12}`);
};
const listed = async (page: Page): Promise<string[]> =>
  (await page.locator(".nearest button").allTextContents()).map((name) => name.replace(/Layer (\d+) head (\d+)/, "$1·$2"));

test("heads as points: every head has a place, its nearest are those of the service, a press opens it", async ({ watched: page, home, request }) => {
  await open(page, home, `${QUERY}&layer=3&head=5`);
  await page.getByRole("radio", { name: "Points" }).check();
  await expect(page).toHaveURL(/plane=1/);
  const points = page.locator(".plane button");
  await expect(points).toHaveCount(144);
  await expect(page.locator(".head-plane")).toContainText(/stress 0\.\d+/);
  await expect.poll(() => listed(page)).toEqual((await nearest(request, home, "cka", 3 * 12 + 5)).slice(0, 8));
  await page.getByRole("radio", { name: "Attention (JS)" }).check();
  await expect(page).toHaveURL(/distance=js/);
  await expect.poll(() => listed(page)).toEqual((await nearest(request, home, "js", 3 * 12 + 5)).slice(0, 8));
  // Heads alike lie nearer to each other than heads at large.
  const at = await points.evaluateAll((all) => all.map((b) => ({ name: b.textContent!, x: parseFloat((b as HTMLElement).style.left), y: parseFloat((b as HTMLElement).style.top) })));
  const home3 = at.find(({ name }) => name === "3·5")!;
  const far = (name: string): number => Math.hypot(at.find((p) => p.name === name)!.x - home3.x, at.find((p) => p.name === name)!.y - home3.y);
  const order = await nearest(request, home, "js", 3 * 12 + 5);
  const mean = (names: string[]): number => names.reduce((sum, name) => sum + far(name), 0) / names.length;
  expect(mean(order.slice(0, 8))).toBeLessThan(mean(order.slice(-40)));
  await expect(page.locator(".plane-legend")).toContainText("previous");
  const named = page.locator(".plane button:not(.dot)");
  const overlaps = (): Promise<number> =>
    named.evaluateAll((all) => {
      const labels = all.map((one) => one.getBoundingClientRect());
      return labels.filter((a, n) =>
        labels.some((b, m) => m > n && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom),
      ).length;
    });
  await expect.poll(overlaps).toBe(0);
  expect(await named.count()).toBeGreaterThan(10);
  await expect(page.locator(".plane .chosen:not(.dot)")).toHaveCount(1);
  await page.getByRole("radio", { name: "Layer", exact: true }).check();
  await expect(page.locator(".plane-legend li")).toHaveCount(12);
  await expect(page).toHaveURL(/paint=layer/);
  await reload(page);
  await expect(page.locator(".plane-legend li")).toHaveCount(12);
  await page.getByRole("button", { name: "7·5: layer 7, head 5" }).focus();
  await expect(readout(page)).toContainText("Layer 7 · Head 5");
  await page.keyboard.press("ArrowRight");
  await expect(readout(page)).not.toContainText("Layer 7 · Head 5");
  await page.keyboard.press("Enter");
  await expect(view(page, "Head")).toBeVisible();
});

test("the filter dims the other points; picture and table have the places", async ({ watched: page, home }) => {
  await open(page, home, `${QUERY}&plane=1&only=previous`);
  await expect(page.locator(".plane button")).toHaveCount(144);
  const bright = page.locator(".plane button:not(.faint)"); // none while the patterns are not known yet
  await expect.poll(async () => (await bright.count()) > 0 && (await bright.count()) < 20).toBe(true);
  const save = async (name: string): Promise<string> => (await saved(page, name)).bytes.toString();
  await expect(page.locator(".plane button.dot").first()).toBeAttached(); // or all had their names still
  const labelled = await page.locator(".plane button:not(.dot)").count();
  const svg = await save("SVG");
  expect(svg.match(/>\d+·\d+<\/text>/g)).toHaveLength(labelled);
  expect(svg.match(/<rect[^>]* width="10" height="10"/g)).toHaveLength(144 - labelled); // the others are dots
  expect((await save("CSV")).trim().split("\r\n")).toHaveLength(1 + 144);
});

test("heads like one: nearest first, from the search and from the head itself", async ({ watched: page, home, request }) => {
  await open(page, home, `view=head&layer=7&head=5&${QUERY}`);
  await page.getByRole("button", { name: "Heads like this one" }).click();
  await expect(view(page, "Overview")).toBeVisible();
  await expect(page.getByLabel("Find heads")).toHaveValue("like 7·5");
  const order = ["7·5", ...(await nearest(request, home, "cka", 7 * 12 + 5))];
  await expect.poll(() => page.locator(".thumb .figure b").allTextContents()).toEqual(order);
  await expect(page.locator(".thumb .figure").first()).toHaveText("7·5 at 0");
  await page.getByLabel("Find heads").fill("like 40·5");
  await expect(page.getByText("No head has this pattern")).toBeVisible();
});

test("previous token and repeated tokens are found by their words; where no head is known for it, the strongest are offered", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, QUERY);
  await page.getByLabel("Find heads").fill("previous token");
  await expect
    .poll(async () => [...new Set(await page.locator(".thumb .figure span").allTextContents())])
    .toEqual(["previous"]);
  await open(page, home, "text=The+cat+sat."); // nothing is repeated
  await page.getByLabel("Find heads").fill("repeated tokens");
  await expect(page.getByText("No head has this pattern")).toBeVisible();
  await page.getByRole("button", { name: "Show all, sorted by: attention: repeats" }).click();
  await expect(page).toHaveURL(/sort=repeated/);
  await expect(page.locator(".thumb")).toHaveCount(144);
  await page.getByLabel("Find heads").fill("like 40·5");
  await expect(page.getByText("No head has this pattern")).toBeVisible();
  await expect(page.getByRole("button", { name: /^Show all, sorted by/ })).toBeHidden();
});
