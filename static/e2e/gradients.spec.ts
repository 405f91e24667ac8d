// Gradients: estimated effects of all heads in one request, exact ones in their place, and the contribution of each token.
import type { APIRequestContext, Page } from "@playwright/test";
import { serve } from "./server";
import { drawn, expect, findings, modelBox, open, ranked, readout, saved, settled, taskTest, test, textBox } from "./viewer";

const TEXT = "The old bridge [MASK] closed after the war.";
const QUERY = `view=experiment&text=${encodeURIComponent(TEXT)}`;
const MISSES = "A gradient describes small changes only";

const ask = async (request: APIRequestContext, home: string, body: object) =>
  (await request.post(`${home}analyze`, { data: { text: TEXT, layers: "all", ...body } })).json();

// The number that the page follows: the likeliest token at the mask.
async function watchedBy(request: APIRequestContext, home: string) {
  const { predictions } = await ask(request, home, { outputs: ["predictions"] });
  const [{ position, token, top }] = predictions;
  return { words: `the log-probability of “${top[0].token}” at ${token} ${position}`, target: { log_probability: top[0].id, position } };
}

const estimated = (page: Page) => page.getByRole("grid").getByRole("button", { name: /, estimate$/ });
const listed = (page: Page) => page.getByRole("region", { name: /^Heads by/ }).locator(".barred");
const exactFor = (page: Page, name: string) => page.getByRole("button", { name: `compute ${name.toLowerCase()} exactly`, exact: true });
interface Change {
  target_change: number;
}

test("one request colours all heads by estimates, marked as such; exact effects take their place on request", async ({ watched: page, home, request }) => {
  const { words, target } = await watchedBy(request, home);
  const estimates = await ask(request, home, { outputs: ["effects"], target, effects_of: { kind: "zero", estimate: "gradient" } });
  const { effects } = await ask(request, home, { outputs: ["effects"], target });
  const sent: object[] = [];
  page.on("request", (one) => {
    const body = one.url().endsWith("/analyze") ? one.postDataJSON() : {};
    if (body.outputs?.includes("effects")) sent.push(body);
  });
  await open(page, home, QUERY);
  await expect(page.getByText(`Watched: ${words}`)).toBeVisible();
  await expect(page.getByText(MISSES)).toBeVisible();
  await expect(estimated(page)).toHaveCount(144);
  expect(sent).toEqual([expect.objectContaining({ target, effects_of: { kind: "zero", estimate: "gradient" } })]);
  const order = ranked(estimates.effects as Change[][], ({ target_change }) => Math.abs(target_change));
  const names = order.map(({ layer, head }) => `Layer ${layer} head ${head}`);
  await expect.poll(() => listed(page).locator("span").allTextContents()).toEqual(names.slice(0, 8));
  await expect(listed(page).first()).toContainText("≈");

  const { layer, head } = order[0]!;
  await exactFor(page, names[0]!).focus();
  await page.keyboard.press("Enter");
  await expect(estimated(page)).toHaveCount(143);
  await expect(page.locator(".barred:focus")).toContainText(names[0]!); // its button is gone
  await expect(page).toHaveURL(new RegExp(`exact=${layer}.${head}`));
  const change = (effects as Change[][])[layer]![head]!.target_change;
  const row = listed(page).filter({ hasText: new RegExp(`^${names[0]}\\D`) });
  await expect(row).not.toContainText("≈");
  const shown = Number((await row.locator("b").textContent())!.replace("−", "-"));
  expect(Math.abs(shown - change)).toBeLessThan(0.006 * Math.abs(change)); // three digits
  expect(sent).toHaveLength(2);

  await page.getByLabel("Compute exactly").check();
  await expect(estimated(page)).toHaveCount(0);
  await expect(page.getByText(MISSES)).toHaveCount(0);
  await expect(page).toHaveURL(/exactly=1/);
  const exact = ranked(effects as Change[][], ({ target_change }) => Math.abs(target_change)).map((one) => `Layer ${one.layer} head ${one.head}`);
  await expect.poll(() => listed(page).locator("span").allTextContents()).toEqual(exact.slice(0, 8));
});

test("the chosen head's effect is exact", async ({ watched: page, home }) => {
  await open(page, home, `${QUERY}&layer=3&head=2`);
  await expect(estimated(page)).toHaveCount(143);
  await expect(page.getByRole("grid").getByRole("button", { name: /layer 3, head 2, effect on the result (?!.*estimate)/ })).toHaveCount(1);
});

test("estimates are marked in what is saved", async ({ watched: page, home }) => {
  await open(page, home, `${QUERY}&layer=3&head=2`);
  await expect(estimated(page)).toHaveCount(143);
  const table = (await saved(page, "CSV")).bytes.toString();
  expect(table.match(/^"effect on the result, estimate",/gm)).toHaveLength(143);
  const picture = (await saved(page, "SVG")).bytes.toString();
  expect(picture.match(/stroke-dasharray/g)).toHaveLength(144); // and the key
  expect(picture).toContain("estimate</text>");
  expect(picture).toContain(MISSES);
});

test("a refused estimate says why, and every head is switched off in its place", async ({ page }) => {
  const server = await serve("no-gradients", ["mini=../model/mini"], ["--max-maps", "8M"]);
  await open(page, server.home, QUERY);
  await expect(page.getByText(/^No estimate, so every head is switched off: .*gradients would take/)).toBeVisible();
  await expect(page.getByText("Heads switched off one by one")).toHaveCount(0);
  await expect(page.getByRole("grid").getByRole("button", { name: /effect on the result/ })).toHaveCount(144);
  await expect(page.getByLabel("Compute exactly")).toHaveCount(0);
  await server.stop();
});

test("a busy server is asked again for the estimate, and no head is switched off meanwhile", async ({ watched: page, home }) => {
  let effects = 0;
  await page.route("**/analyze", (route) => {
    if (!route.request().postDataJSON().outputs.includes("effects") || effects++ > 0) return route.continue();
    return route.fulfill({ status: 429, contentType: "application/problem+json", json: { title: "Too Many Requests", status: 429, detail: "the queue is full" } });
  });
  await open(page, home, QUERY);
  await expect(page.getByRole("alert")).toContainText("The queue is full");
  await expect(page.getByText("so every head is switched off")).toHaveCount(0);
  expect(effects).toBe(1);
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(estimated(page)).toHaveCount(144);
  expect(effects).toBe(2);
});

test("a text without a prediction has the colours of states, whatever the address says, which names heads that are missing", async ({ watched: page, home }) => {
  await open(page, home, "view=experiment&text=The+old+bridge.&tone=target_change&exact=99.0");
  await expect(page.getByLabel("Heads coloured by")).toHaveValue("hidden_change");
  await expect(page.getByText("The address names layer 99")).toBeVisible();
});

test("another model's predictions are followed no more, though the tokens are the same", async ({ watched: page, home, request }) => {
  const { words } = await watchedBy(request, home);
  const sent: string[] = [];
  let answer = (): void => {};
  const held = new Promise<void>((done) => (answer = done));
  await page.route("**/analyze", async (route) => {
    const { model, outputs } = route.request().postDataJSON();
    if (model === "twin") sent.push(...outputs);
    if (model === "twin" && outputs.includes("predictions")) await held;
    await route.continue().catch(() => {});
  });
  await open(page, home, `model=twin&text=${encodeURIComponent(TEXT)}`); // its heads are here from now on
  await settled(page);
  await open(page, home, QUERY);
  await expect(estimated(page)).toHaveCount(144);
  sent.length = 0;
  await modelBox(page).selectOption("twin");
  await expect.poll(() => sent).toContain("predictions");
  await drawn(page);
  await expect(page.getByText("Watched:")).toHaveCount(0);
  expect(sent).not.toContain("effects");
  answer();
  await expect(page.getByText(`Watched: ${words}`)).toBeVisible();
  await expect(estimated(page)).toHaveCount(144);
});

for (const scheme of ["light", "dark"] as const)
  test(`axe finds nothing serious or moderate: estimates, ${scheme}`, async ({ watched: page, home }) => {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await open(page, home, `${QUERY}&layer=3&head=2`);
    await settled(page);
    expect(await findings(page)).toEqual([]);
  });

const OF_TEXT = `view=text&text=${encodeURIComponent(TEXT)}`;
const METHODS = { gradient_x_input: "Gradient × input", gradient: "Gradient", integrated_gradients: "Integrated gradients" };
const shade = (page: Page, t: number): Promise<string> => page.locator(`.paper [data-t="${t}"]`).evaluate((token) => (token as HTMLElement).style.background);

test("Text colours tokens by attribution to the masked token, by each method", async ({ watched: page, home, request }) => {
  const { words, target } = await watchedBy(request, home);
  await open(page, home, OF_TEXT);
  await page.getByRole("radio", { name: "Attribution" }).check();
  for (const [attribution, name] of Object.entries(METHODS)) {
    const answer = await ask(request, home, { layers: [0], outputs: ["token_attributions"], attribution, target });
    const values = answer.token_attributions as number[];
    await page.getByLabel("Attribution by").selectOption(attribution);
    await expect(page).toHaveURL(new RegExp(`attribution=${attribution}(&|$)`));
    await expect(page.getByText(`${name} of each token, to ${words}`)).toBeVisible();
    await expect(page.getByRole("img", { name: new RegExp(`^Attribution, ${name.toLowerCase()}: `) })).toBeVisible();
    const order = values.map((value, t) => ({ name: `${answer.tokens[t]}${t}`, size: Math.abs(value) })).sort((a, b) => b.size - a.size).slice(0, 8);
    const card = page.getByRole("region", { name: "Attribution", exact: true });
    await expect.poll(() => card.getByRole("button").evaluateAll((all) => all.map((one) => one.querySelector("span")!.textContent! + one.querySelector("small")!.textContent))).toEqual(order.map(({ name }) => name));
    const strongest = values.findIndex((value) => Math.abs(value) === Math.max(...values.map(Math.abs)));
    await page.locator(`.paper [data-t="${strongest}"]`).hover();
    const said = /attribution (−?[\d.]+)/.exec((await readout(page).textContent())!)![1]!.replace("−", "-");
    expect(Math.abs(Number(said) - values[strongest]!)).toBeLessThan(0.006 * Math.abs(values[strongest]!));
    expect(await shade(page, strongest)).not.toBe("");
    await expect(page.getByText("completeness gap")).toHaveCount(attribution === "integrated_gradients" ? 1 : 0);
  }
  const { completeness_gap } = (await ask(request, home, { layers: [0], outputs: ["token_attributions"], attribution: "integrated_gradients", target })).target;
  await expect(page.getByText(`completeness gap ${completeness_gap < 0 ? "−" : ""}${Math.abs(completeness_gap).toPrecision(2).slice(0, 4)}`)).toBeVisible();
});

test("attributions are signed, reach the file that is saved, and a text without a number to follow says so", async ({ watched: page, home, request }) => {
  await open(page, home, `${OF_TEXT}&attribution=gradient_x_input`);
  const { target } = await watchedBy(request, home);
  const { token_attributions: values } = await ask(request, home, { layers: [0], outputs: ["token_attributions"], target });
  await expect(page.getByRole("region", { name: "Attribution", exact: true })).toBeVisible();
  const [most, least] = [values.indexOf(Math.max(...values)), values.indexOf(Math.min(...values))];
  expect(values[least]).toBeLessThan(0);
  const channels = async (t: number): Promise<number[]> => (await shade(page, t)).match(/\d+/g)!.map(Number);
  const [up, down] = [await channels(most), await channels(least)];
  expect(up[0]! - up[2]!).toBeGreaterThan(0); // orange above 0, blue below
  expect(down[0]! - down[2]!).toBeLessThan(0);
  await page.locator(`.paper [data-t="${most}"]`).click();
  await expect(page.locator(`.paper [data-t="${most}"]`)).toHaveClass(/held/); // chosen, in its own colour
  expect(await channels(most)).toEqual(up);
  const [head, ...rows] = (await saved(page, "CSV")).bytes.toString().trim().split(/\r?\n/).map((line) => line.split(","));
  const column = head!.findIndex((name) => name.includes("gradient_x_input"));
  rows.forEach((row, t) => expect(Math.abs(Number(row[column]) - values[t])).toBeLessThan(1e-4));
  expect((await saved(page, "npz")).bytes.toString("latin1")).toContain("token_attributions.npy");
  expect((await saved(page, "SVG")).bytes.toString().replace(/<\/?tspan[^>]*>/g, "")).toContain("A gradient describes small changes only");
  await textBox(page).fill("The old bridge was closed after the war.");
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(page.getByRole("alert")).toContainText("no number to follow. Put a mask");
  await page.getByRole("radio", { name: "Attends to" }).check();
  await expect(page.getByRole("alert")).toHaveCount(0);
  await expect(page).not.toHaveURL(/attribution=/);
});

test("attributions stay while another head's maps are on the way", async ({ watched: page, home }) => {
  let answer = (): void => {};
  const held = new Promise<void>((done) => (answer = done));
  await page.route("**/analyze", async (route) => {
    const { dtype, layers } = route.request().postDataJSON();
    if (dtype === "f4" && layers[0] === 3) await held;
    await route.continue().catch(() => {});
  });
  await open(page, home, `${OF_TEXT}&attribution=gradient&layer=3&head=2`);
  await expect(page.getByRole("region", { name: "Attribution", exact: true })).toBeVisible();
  await expect(page.getByRole("img", { name: /^Attribution, gradient: / })).toBeVisible();
  answer();
});

for (const scheme of ["light", "dark"] as const)
  test(`axe finds nothing serious or moderate: attributions, ${scheme}`, async ({ watched: page, home }) => {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await open(page, home, `${OF_TEXT}&attribution=integrated_gradients`);
    await settled(page);
    expect(await findings(page)).toEqual([]);
  });

taskTest("attributions follow the class, the loss, and both texts of cross heads", async ({ watched: page, home }) => {
  const sent = (): Promise<unknown> =>
    page.waitForRequest((one) => (one.postData() ?? "").includes('"token_attributions"')).then((one) => one.postDataJSON().target);
  const first = sent();
  await open(page, home, "view=text&model=moods&text=The+bridge+was+closed.&attribution=gradient");
  expect(await first).toEqual({ class: expect.any(Number) });
  await expect(page.getByText(/Gradient of each token, to the logit of “/)).toBeVisible();
  const second = sent();
  await open(page, home, "view=text&model=causal&text=The+bridge+was+closed.&attribution=integrated_gradients");
  expect(await second).toEqual({ loss: true });
  await expect(page.getByText(/to the loss of the text/)).toBeVisible();
  const third = sent();
  await open(page, home, "view=text&model=writer&stack=cross&text=The+bridge+was+closed.&target=The+war.&attribution=integrated_gradients");
  expect(await third).toEqual({ log_probability: expect.any(Number), position: expect.any(Number) });
  await expect(page.getByText(/By the tokens of the text, from the baseline/)).toBeVisible();
  await expect(page.getByRole("region", { name: "Attribution", exact: true }).getByRole("button")).toHaveCount(8);
});

taskTest("a text too long for whole maps has attributions, too, in its file as well", async ({ watched: page, home }) => {
  const text = "The bridge was closed after the war. ".repeat(280);
  await open(page, home, `view=text&model=causal&max=2560&attribution=gradient&text=${encodeURIComponent(text)}`);
  await expect(page.getByText(/Gradient of each token, to the loss of the text/)).toBeVisible();
  await expect(page.getByRole("region", { name: "Attribution", exact: true }).getByRole("button")).toHaveCount(8);
  await expect(page.locator('.paper [data-t="1"]')).toHaveAttribute("style", /background/);
  const rows = (await saved(page, "CSV")).bytes.toString().trim().split(/\r?\n/);
  expect(rows[0]).toMatch(/,"?gradient"?$/);
  expect(rows[1]).toMatch(/,0\.\d+$/);
  expect(rows).toHaveLength(2243);
});
