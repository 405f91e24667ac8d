// Stories: views with captions, undone, presented, saved as a file that works offline, and opened again.
import { readFileSync } from "node:fs";
import { expect, findings, open, settled, test, view } from "./viewer";

const QUERY = "view=head&layer=1&head=4&pin=2.5&text=The+old+bridge+%5BMASK%5D+closed.";

test("a story: added, edited, undone, presented, saved, opened", async ({ watched: page, home, context }) => {
  await open(page, home, QUERY);
  await expect(page.locator(".heatmap").first()).toBeVisible();
  await settled(page);
  const menu = page.locator(".story-menu > summary");
  await menu.click();
  await page.getByLabel("Caption for this view").fill("One head <b>& its</b> cell");
  await page.getByRole("button", { name: "Add this view" }).click();
  await expect(page.getByLabel("Title of step 1")).toHaveValue("Head · Layer 1 · head 4 · old → closed");
  expect(await findings(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Overview", exact: true }).click();
  await expect(page.locator(".thumb")).toHaveCount(144);
  await settled(page);
  await menu.click();
  await page.getByRole("button", { name: "Add this view" }).click();
  await page.getByRole("button", { name: "Move step 2 up" }).click();
  await expect(page.getByLabel("Title of step 1")).toHaveValue("Overview");
  await page.getByRole("button", { name: "Remove step 2" }).click();
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(page.getByLabel("Title of step 2")).toHaveValue(/^Head/);
  await page.getByRole("button", { name: "Present" }).click();
  const dialog = page.getByRole("dialog", { name: "Presentation" });
  await expect(dialog.getByRole("heading")).toHaveText("Overview");
  await page.keyboard.press("ArrowRight");
  await expect(dialog.getByRole("heading")).toContainText("Layer 1 · head 4");
  await expect(dialog.locator("img")).toHaveJSProperty("complete", true);
  await expect(dialog).toContainText("One head <b>& its</b> cell");
  expect(await findings(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Open the view" }).click();
  await expect(view(page, "Head")).toBeVisible();
  await expect(page).toHaveURL(/pin=2\.5/);
  await menu.click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as HTML" }).click()]);
  const file = (await download.path())!;
  const saved = await context.newPage();
  await context.setOffline(true);
  await saved.setContent(readFileSync(file).toString());
  await expect(saved.locator("section.shown h1")).toHaveText("Overview");
  await saved.keyboard.press("ArrowRight");
  await expect(saved.locator("section.shown p")).toHaveText("One head <b>& its</b> cell");
  expect(await saved.locator("section.shown img").evaluate((image: HTMLImageElement) => image.naturalWidth)).toBeGreaterThan(100);
  await context.setOffline(false);
  await saved.close();
  await page.getByRole("button", { name: "Remove step 1" }).click();
  await page.locator(".opens input").setInputFiles({ name: "story.html", mimeType: "text/html", buffer: readFileSync(file) });
  await expect(page.getByText("Opened 2 steps")).toBeVisible();
  await page.reload();
  await expect(menu).toHaveText("Story 2");
});

test("the story's menu fits a phone", async ({ watched: page, home }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await open(page, home, QUERY);
  await settled(page);
  await page.locator(".story-menu > summary").click();
  await page.getByRole("button", { name: "Add this view" }).click();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  expect(await findings(page)).toEqual([]);
});
