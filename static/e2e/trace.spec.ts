// Trace: the routes to a prediction or a class, and what the model says without their heads.
import { analysed, bodyRows, expect, findings, open, predictions, ranked, saved, settled, test, view } from "./viewer";

const TEXT = "He was born in [MASK] York.";
const LONG_TEXT = Array.from({ length: 40 }, (_, n) => `The harbour ${n} of the old town was built for fishing boats.`).join(" ");
const QUERY = `view=trace&text=${encodeURIComponent(TEXT)}`;

test("routes to a prediction; one is pruned, the prediction follows, the picture is saved", async ({ watched: page, home, request }) => {
  await open(page, home, `view=experiment&text=${encodeURIComponent(TEXT)}`);
  await page.getByRole("button", { name: "Trace it" }).click();
  await expect(view(page, "Trace")).toBeVisible();
  const routes = page.getByRole("button", { name: / → .* by \d/ });
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
  await expect(bodyRows(predictions(page)).first()).toContainText(`${Math.round(100 * answer.predictions[0].top[0].probability)} %`);
  const drawing = (await saved(page, "SVG")).bytes.toString();
  expect(drawing).toContain(">embeddings</text>");
  expect(drawing).toContain(`>${layer}·${head}</text>`);
  await page.keyboard.press("Escape");
  await page.getByRole("radio", { name: "Attention × effect" }).check();
  await expect(routes).toHaveCount(8);
  await page.getByRole("button", { name: "Release all" }).click();
  await expect(page).not.toHaveURL(/edits=/);
});

test("routes by patching from a second text, and what each token's state restores", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  await open(page, home, QUERY);
  await page.getByRole("radio", { name: "Attention × patching" }).check();
  await expect(view(page, "Trace").getByRole("status")).toContainText("Write the second text above");
  const second = page.getByLabel("Second text", { exact: true });
  await second.fill("He was born in [MASK] Orleans, a town.");
  await page.keyboard.press("Control+Enter");
  await expect(view(page, "Trace").getByRole("status")).toContainText(/The second text has \d+ tokens, the first one 9\./);
  await expect(page.locator(".routes svg")).toHaveCount(0);
  await second.fill(TEXT);
  await page.getByRole("button", { name: "Trace", exact: true }).last().click();
  await expect(view(page, "Trace").getByRole("status")).toContainText("Both texts are the same");
  const other = "He was born in [MASK] England.";
  await second.fill(other);
  await page.keyboard.press("Control+Enter");
  await expect(page).toHaveURL(/weight=patch/);
  const routes = page.getByRole("button", { name: / → .* by \d/ });
  await expect(routes).toHaveCount(8);
  await page.getByText("Restored by each token’s state").click();
  const rows = bodyRows(page.getByRole("region", { name: "Restored by each token’s state" }).getByRole("table"));
  await expect(rows).toHaveCount(9);
  // As the service answers for the tokens that both texts predict.
  const predicted = async (text: string): Promise<number> => {
    const requested = { text, layers: [0], heads: [0], outputs: ["predictions"], predictions: { positions: [5], top_k: 1 } };
    return (await (await request.post(`${home}analyze`, { data: requested })).json()).predictions[0].top[0].id;
  };
  const [is, was] = [await predicted(TEXT), await predicted(other)];
  const target = is === was ? { token: is, position: 5 } : { tokens: [was, is], position: 5 };
  const patched = { text: TEXT, layers: "all", outputs: ["effects", "patch_map"], effects_of: { kind: "patch", from: { text: other } }, target };
  const { effects, patch_map } = await (await request.post(`${home}analyze`, { data: patched })).json();
  const expected = (patch_map as number[][]).map((row) => String(Math.round(100 * row[6]!)).replace("-", "−"));
  expect(await rows.nth(6).getByRole("cell").allTextContents()).toEqual(expected);
  // The strongest route goes through one of the heads that restore most.
  const strongest = ranked(effects as { recovered: number }[][], ({ recovered }) => Math.abs(recovered)).slice(0, 12);
  const [, head] = / by (\d+·\d+)/.exec((await routes.first().textContent())!)!;
  expect(strongest.map(({ name }) => name)).toContain(head);
});

for (const [name, width, fragment, colorScheme] of [
  ["patching, light", 1920, `${QUERY}&weight=patch&patchmap=1&text2=${encodeURIComponent("He was born in [MASK] England.")}`, "light"],
  ["patching, dark on a phone", 390, `${QUERY}&weight=patch&patchmap=1&text2=${encodeURIComponent("He was born in [MASK] England.")}`, "dark"],
  ["light", 1440, `${QUERY}&edits=z2.10&route=0`, "light"],
  ["dark on a phone", 390, `${QUERY}&weight=effect&routes=16`, "dark"],
] as const)
  test(`axe finds nothing serious or moderate in Trace: ${name}`, { tag: "@slow" }, async ({ watched: page, home }) => {
    await page.setViewportSize({ width, height: 844 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await open(page, home, fragment);
    await expect(page.locator(".routes svg")).toBeVisible();
    await settled(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    expect(await findings(page)).toEqual([]);
  });

test("the picture of a trace fits its window, with the result and all layers: 1440, 390 and 1280 px", async ({ watched: page, home }) => {
  await open(page, home, "view=trace&routes=20&text=The+old+bridge+that+the+town+paid+for+%5BMASK%5D+closed+after+the+war.");
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await expect(page.locator(".routes path").first()).toBeAttached();
    await settled(page);
    const box = await page.getByRole("group", { name: /^Routes to the result/ }).evaluate((one) => [one.scrollWidth, one.clientWidth]);
    expect(box[0]).toBeLessThanOrEqual(box[1]!);
    const [picture, result] = [(await page.getByRole("group", { name: /^Routes to the result/ }).boundingBox())!, (await page.locator(".routes text.bold").first().boundingBox())!];
    expect(result.x).toBeGreaterThanOrEqual(picture.x);
    expect(result.x + result.width).toBeLessThanOrEqual(picture.x + picture.width);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await settled(page);
  const [drawn, bar] = [(await page.locator(".routes svg").boundingBox())!, (await page.getByRole("contentinfo").boundingBox())!];
  expect(drawn.y + drawn.height).toBeLessThanOrEqual(bar.y); // its tokens stand at the bottom
});

test("at 512 tokens the strongest route is in sight: other layers are folded, and unfolded by the keyboard", async ({ watched: page, home }) => {
  await open(page, home, `view=trace&max=512&text=${encodeURIComponent(LONG_TEXT)}`);
  await expect(analysed(page)).toContainText("512 tokens");
  const picture = page.locator(".routes svg");
  await expect(picture).toBeVisible();
  await settled(page);
  const strip = page.locator(".token-strip");
  const [around, traced] = [(await strip.boundingBox())!, (await strip.locator(".held").boundingBox())!];
  expect(traced.y + traced.height).toBeLessThanOrEqual(around.y + around.height); // the traced token is in sight
  const strongest = page.getByRole("button", { name: / → .* by \d/ }).first();
  const [, head] = / by (\d+·\d+)/.exec((await strongest.textContent())!)!;
  const bar = (await page.getByRole("contentinfo").boundingBox())!;
  for (const part of [picture, picture.getByText(head!, { exact: true }).first()]) {
    const box = (await part.boundingBox())!;
    expect(box.y + box.height).toBeLessThanOrEqual(bar.y);
  }
  const [folded, curves] = [(await picture.boundingBox())!.height, await picture.locator("path:not(.level, .column)").count()];
  expect(await findings(page)).toEqual([]);
  const fold = page.getByRole("checkbox", { name: "Fold layers" });
  await expect(fold).toBeChecked();
  await fold.focus();
  await page.keyboard.press("Space");
  await expect(fold).not.toBeChecked();
  await expect(page).toHaveURL(/fold=off/);
  await expect.poll(async () => (await picture.boundingBox())!.height).toBeGreaterThan(2 * folded);
  await expect(picture.getByText("layer 8", { exact: true })).toBeVisible();
  await expect(picture.locator("path:not(.level, .column)")).toHaveCount(curves); // folded layers had theirs, too
});
