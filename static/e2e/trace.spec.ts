// Trace: the routes to a prediction or a class, and what the model says without their heads.
import { readFileSync } from "node:fs";
import { expect, findings, open, settled, test, view } from "./viewer";

const TEXT = "He was born in [MASK] York.";
const QUERY = `view=trace&text=${encodeURIComponent(TEXT)}`;

test("routes to a prediction; one is pruned, the prediction follows, the picture is saved", async ({ watched: page, home, request }) => {
  await open(page, home, `view=experiment&text=${encodeURIComponent(TEXT)}`);
  await page.getByRole("button", { name: "Trace it" }).click();
  await expect(view(page, "Trace")).toBeVisible();
  const routes = page.locator(".route-list .route");
  await expect(routes).toHaveCount(8);
  await expect(routes.first()).toContainText("100 %");
  await expect(routes.first()).toContainText(/→ \[MASK\] 5 by \d+·\d+/);
  await routes.first().focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/route=0/);
  await expect(routes.first()).toHaveAttribute("aria-pressed", "true");
  const [, layer, head] = /\[MASK\] 5 by (\d+)·(\d+)/.exec((await routes.first().textContent())!)!.map(Number) as [number, number, number];
  await page.getByRole("button", { name: "Switch off the heads of route 1", exact: true }).click();
  await expect(page).toHaveURL(new RegExp(`edits=.*z${layer}\\.${head}`));
  const edits = [...new URL(page.url()).hash.matchAll(/z(\d+)\.(\d+)/g)].map(([, l, h]) => ({ layers: [Number(l)], heads: [Number(h)], kind: "zero" }));
  const answer = await (await request.post(`${home}analyze`, { data: { text: TEXT, outputs: ["predictions"], interventions: edits } })).json();
  await expect(page.locator(".prediction tbody tr").first()).toContainText(`${Math.round(100 * answer.predictions[0].top[0].probability)} %`);
  await page.locator(".menu summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: /^SVG/ }).click()]);
  const drawing = readFileSync((await download.path())!).toString();
  expect(drawing).toContain(">embeddings</text>");
  expect(drawing).toContain(`>${layer}·${head}</text>`);
  await page.keyboard.press("Escape");
  await page.getByRole("radio", { name: "Attention × effect" }).check();
  await expect(routes).toHaveCount(8);
  await page.getByRole("button", { name: "Release all" }).click();
  await expect(page).not.toHaveURL(/edits=/);
});

for (const [name, width, fragment, colorScheme] of [
  ["light", 1440, `${QUERY}&edits=z2.10&route=0`, "light"],
  ["dark on a phone", 390, `${QUERY}&weight=effect&routes=16`, "dark"],
] as const)
  test(`axe finds nothing serious or moderate in Trace: ${name}`, async ({ watched: page, home }) => {
    await page.setViewportSize({ width, height: 844 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await open(page, home, fragment);
    await expect(page.locator(".routes svg")).toBeVisible();
    await settled(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    expect(await findings(page)).toEqual([]);
  });
