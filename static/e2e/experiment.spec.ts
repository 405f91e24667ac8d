// Change heads, see what follows: what the view shows is what the service answers.
import type { APIRequestContext, Page } from "@playwright/test";
import { bodyRows, colours, drawn, expect, exportMenu, maps, menuNote, open, predictions, readout, reload, saved, test, textBox, view } from "./viewer";

const TEXT = "The old bridge [MASK] closed after the war.";
const QUERY = `view=experiment&text=${encodeURIComponent(TEXT)}`;
const ZERO = { layers: [1], heads: [7], kind: "zero" };

const ask = async (request: APIRequestContext, home: string, body: object) =>
  (await request.post(`${home}analyze`, { data: { text: TEXT, layers: "all", outputs: ["predictions"], ...body } })).json();
const head = (page: Page, l: number, h: number) =>
  page.getByRole("grid").getByRole("row").nth(l + 1).getByRole("gridcell").nth(h).getByRole("button");
const percent = (p: number): string => `${(100 * p).toFixed(p < 0.1 ? 1 : 0)}\u00a0%`;

test("a head is switched off: predictions, heads and tokens are those of the service", async ({ watched: page, home, request }) => {
  await open(page, home, QUERY);
  const before = await ask(request, home, {});
  const after = await ask(request, home, { interventions: [ZERO] });
  const row = bodyRows(predictions(page)).first();
  await expect(row).toContainText(`was${percent(before.predictions[0].top[0].probability)}`);
  await head(page, 1, 7).click();
  await expect(head(page, 1, 7)).toHaveText("off");
  await expect(page).toHaveURL(/edits=z1.7/);
  await expect(page.getByRole("status", { name: "Changes" })).toHaveText("1 head switched off");
  const [was, is] = [before, after].map((answer) => answer.predictions[0].top[0].probability);
  await expect(row).toContainText(`${percent(was)} 1${percent(is)} 1`);
  const best = (after.changes.similarities as number[][])
    .flatMap((values, l) => values.map((value, h) => ({ name: `Layer ${l} head ${h}`, value })))
    .sort((a, b) => b.value - a.value)
    .map(({ name }) => name);
  await expect.poll(() => page.getByRole("region", { name: /^(Heads by|Tokens that)/ }).first().locator(".barred span").allTextContents()).toEqual(best.slice(0, 8));
  const moved = after.changes.hidden.at(-1) as number[];
  const first = moved.indexOf(Math.max(...moved));
  await expect(page.getByRole("region", { name: /^(Heads by|Tokens that)/ }).nth(1).locator(".barred span").first()).toHaveText(`${after.tokens[first]} ${first}`);
  await head(page, 1, 7).click();
  await expect(page).not.toHaveURL(/edits=/);
  await expect(page.getByRole("status", { name: "Changes" })).toHaveText("Nothing is changed yet");
});

test("kinds, whole layers and the factor reach the request; the address keeps them", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, QUERY);
  await expect(page.getByRole("region", { name: /^Predictions: / })).toBeVisible();
  await page.getByRole("radio", { name: "Scale", exact: true }).check();
  await page.getByLabel("Factor").fill("-2");
  const sent = page.waitForRequest((r) => (r.postData() ?? "").includes('"kind":"scale"') && r.postData()!.includes("predictions"));
  await head(page, 4, 3).click();
  expect((await sent).postDataJSON().interventions).toEqual([{ layers: [4], heads: [3], kind: "scale", factor: -2 }]);
  await expect(head(page, 4, 3)).toHaveText("×-2");
  await page.getByRole("radio", { name: "Uniform" }).check();
  await page.getByRole("button", { name: "L2: all heads of layer 2" }).click();
  await expect(page.getByRole("status", { name: "Changes" })).toHaveText("12 heads made to attend evenly, 1 scaled by -2");
  await page.getByRole("radio", { name: "Mean" }).check();
  await head(page, 2, 0).click();
  await expect(head(page, 2, 0)).toHaveText("mean");
  await reload(page);
  await expect(head(page, 2, 1)).toHaveText("even");
  await expect(head(page, 2, 0)).toHaveText("mean");
  await expect(head(page, 4, 3)).toHaveText("×-2");
  await page.getByRole("button", { name: "Release all" }).click();
  await expect(page.getByRole("grid").getByRole("button", { pressed: true })).toHaveCount(0);
  await page.goBack();
  await expect(page.getByRole("grid").getByRole("button", { pressed: true })).toHaveCount(13);
});

test("the switches by keyboard: arrows, Enter, Shift and Enter", async ({ watched: page, home }) => {
  await open(page, home, QUERY);
  await expect(page.getByRole("region", { name: /^Predictions: / })).toBeVisible();
  await head(page, 0, 0).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/edits=z1.1/);
  await page.keyboard.press("End");
  await expect(head(page, 1, 11)).toBeFocused();
  await page.keyboard.press("Control+End");
  await expect(head(page, 11, 11)).toBeFocused();
  await page.keyboard.press("Shift+Enter");
  await expect(page).toHaveURL(/layer=11&head=11/);
  await expect(page.locator(".switches button[tabindex='0']")).toHaveCount(1);
});

test("maps before and after, and their difference cell by cell", async ({ watched: page, home, request }) => {
  await open(page, home, `${QUERY}&edits=z1.7&layer=3&head=2&pin=2.6`);
  await expect(maps(page)).toHaveCount(3);
  await expect.poll(() => colours(page, ".plate:nth-child(3) canvas")).toBeGreaterThan(10);
  const map = async (body: object): Promise<number> =>
    (await ask(request, home, { layers: [3], heads: [2], outputs: ["similarities"], digits: 9, ...body })).similarities[0][0][2][6];
  const [was, is] = [await map({}), await map({ interventions: [ZERO] })];
  await expect(readout(page)).toContainText("old 2 → after 6");
  const text = (await readout(page).textContent())!.replaceAll("−", "-");
  const read = (name: string): number => Number(new RegExp(`${name} (\\S+)`).exec(text)![1]);
  expect(Math.abs(read("  before") - was)).toBeLessThan(0.02 * Math.abs(was));
  expect(Math.abs(read("  after") - is)).toBeLessThan(0.02 * Math.abs(is));
  expect(Math.abs(read("after - before") - (is - was))).toBeLessThan(0.02 * Math.abs(is - was));
  await open(page, home, `${QUERY}&edits=z5.1&layer=3&head=2`);
  await expect(page.getByRole("figure").nth(2)).toContainText("nothing differs here: a change acts on the layers after its own");
  const tops = await page.locator(".plate .heatmap").evaluateAll((maps) => maps.map((map) => map.getBoundingClientRect().top));
  expect(new Set(tops).size).toBe(1); // in one row, though one title has more lines
});

test("any token can be predicted; a text without a mask offers some", async ({ watched: page, home, request }) => {
  await open(page, home, "view=experiment");
  await expect(page.getByText("This text has no [MASK]")).toBeVisible();
  await page.getByRole("button", { name: "He was born in [MASK] York." }).click();
  const masked = await ask(request, home, { text: "He was born in [MASK] York." });
  const [best] = masked.predictions[0].top;
  expect(best.token).toBe("new");
  await expect(bodyRows(predictions(page)).first()).toContainText(`new${percent(best.probability)}`);
  await page.getByRole("option", { name: "born" }).click();
  await expect(page).toHaveURL(/at=3/);
  const answer = await ask(request, home, { text: "He was born in [MASK] York.", predictions: { positions: [3] } });
  await expect(page.getByRole("region", { name: /^Predictions: / })).toContainText(`rank ${answer.predictions[0].rank}.`);
  await textBox(page).fill("He was born in [MASK] York in spring.");
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(page).not.toHaveURL(/at=/); // which was about the other text
  await page.getByRole("option", { name: "born" }).click();
  await page.getByRole("button", { name: "Back to the masked tokens" }).click();
  await expect(page.getByRole("heading", { name: "At [MASK] 5" })).toBeVisible();
});

test("an address that names what is not there says so", async ({ watched: page, home }) => {
  await open(page, home, `${QUERY}&edits=z1.7_z40.1&at=900`);
  await expect(page.getByText("The address names layer 40; mini has 12 layers, counted from 0. It is ignored.")).toBeVisible();
  await expect(page.getByText("The address names token 900; the text has 11 tokens")).toBeVisible();
  await expect(head(page, 1, 7)).toHaveText("off");
  await open(page, home, `${QUERY}&edits=q1.7`);
  await expect(page.getByText("Ignored “edits” in the link: unknown value.")).toBeVisible();
  await head(page, 1, 7).click();
  await expect(page.getByText("unknown value")).toBeHidden();
});

test("what is saved: both passes, the switches and the figures", async ({ watched: page, home, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, home, `${QUERY}&edits=z1.7_x4.3.0.5&layer=5&head=3`);
  await expect(maps(page)).toHaveCount(3);
  const save = async (name: string): Promise<Buffer> => (await saved(page, name)).bytes;
  const vector = (await save("SVG")).toString();
  expect(vector).toContain(">1 head switched off, 1 scaled by 0.5</text>");
  expect(vector).toContain(">off</text>");
  expect(vector.replace(/<\/?tspan[^>]*>/g, "")).toContain(">At [MASK] 4</text>"); // each bold word has its place
  expect(vector.match(/<image/g)).toHaveLength(6); // three maps and their cross-hairs
  const table = (await save("CSV")).toString();
  expect(table).toContain("intervention: switched off,1,7");
  expect(table).toMatch(/probability,,,4,was,0\.\d+,0\.\d+/);
  const arrays = (await save("npz")).toString("latin1");
  for (const name of ["first_similarities.npy", "second_similarities.npy", "second_changes_hidden.npy", "second_predictions_top_ids.npy"])
    expect(arrays).toContain(name);
  await exportMenu(page).click();
  await page.getByRole("button", { name: /^Python/ }).click();
  await expect(menuNote(page)).toContainText("Copied");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain('"kind":"zero"');
});

test("the view fits windows of 390, 1280 and 1600 pixels", async ({ watched: page, home }) => {
  await open(page, home, `${QUERY}&edits=z1.7&layer=5&head=3`);
  for (const width of [390, 1280, 1600]) {
    await page.setViewportSize({ width, height: 800 });
    await expect(maps(page)).toHaveCount(3);
    await expect(view(page, "Experiment")).toBeVisible();
    await drawn(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
  }
});

test("the lens: what it would say after every layer, before and after", async ({ watched: page, home, request }) => {
  await open(page, home, `${QUERY}&edits=z0.0`);
  await page.getByText("Predictions after every layer").click();
  await expect(page).toHaveURL(/lens=1/);
  await expect(page.getByRole("region", { name: /^Lens / })).toHaveCount(2);
  await expect(page.getByRole("region", { name: /^Lens / }).first().getByRole("rowgroup").last().getByRole("row")).toHaveCount(13);
  await page.setViewportSize({ width: 390, height: 800 });
  const hidden = await page.getByRole("region", { name: /^Lens / }).evaluateAll((all) => all.map((one) => one.scrollWidth - one.clientWidth));
  expect(hidden).toEqual([0, 0]); // the entropy is in sight on a phone
  await page.setViewportSize({ width: 1280, height: 800 });
  for (const [n, body] of [{}, { interventions: [{ layers: [0], heads: [0], kind: "zero" }] }].entries()) {
    const { predictions } = await ask(request, home, { ...body, predictions: { lens: true } });
    const said = await page.getByRole("region", { name: /^Lens / }).nth(n).locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.querySelector("td span")!.textContent));
    expect(said).toEqual(predictions[0].layers.map((reading: { top: { token: string }[] }) => reading.top[0]!.token));
  }
});

test("what is opened just before the page is drawn stays open", async ({ watched: page, home }) => {
  await open(page, home, QUERY);
  await expect(page.getByRole("region", { name: /^Predictions: / })).toBeVisible();
  await drawn(page);
  await page.evaluate(() => {
    requestAnimationFrame(() => document.querySelector<HTMLElement>(".experiment .disclosure summary")!.click());
    dispatchEvent(new Event("hashchange")); // the page draws itself in the same frame, after the press
  });
  await expect(page.getByRole("region", { name: /^Lens / })).toHaveCount(1);
  await expect(page).toHaveURL(/lens=1/);
});

test("effects: every head switched off alone, a layer at a time; cancelled, gone on with, a click switches off", async ({ watched: page, home, request }) => {
  let release = (): void => {};
  const held = new Promise<void>((done) => {
    release = done;
  });
  await page.route("**/analyze", async (route) => {
    const { outputs, layers } = route.request().postDataJSON();
    if (outputs.includes("effects") && layers[0] >= 3) await held;
    await route.continue().catch(() => {});
  });
  await open(page, home, `${QUERY}&tone=prediction_kl`);
  await expect(page.getByText("Heads switched off one by one: 3 of 12 layers")).toBeVisible();
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByText("3 of 12 layers, then cancelled")).toBeVisible();
  release();
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByText("Heads switched off one by one")).toBeHidden();
  const { effects } = await ask(request, home, { outputs: ["effects"] });
  const best = (effects as { prediction_kl: number }[][])
    .flatMap((row, l) => row.map(({ prediction_kl }, h) => ({ name: `Layer ${l} head ${h}`, l, h, value: prediction_kl })))
    .sort((a, b) => b.value - a.value);
  await expect.poll(() => page.getByRole("region", { name: /^(Heads by|Tokens that)/ }).first().locator(".barred span").allTextContents()).toEqual(best.slice(0, 8).map(({ name }) => name));
  const { l, h } = best[0]!;
  await page.getByLabel("Heads coloured by").selectOption("hidden_change");
  await page.getByLabel("Heads coloured by").selectOption("prediction_kl");
  await head(page, l, h).click();
  await expect(page).toHaveURL(new RegExp(`edits=z${l}.${h}`));
  await page.getByRole("button", { name: `change layer ${l} head ${h}`, exact: true }).click();
  await expect(page).not.toHaveURL(/edits=/);
  await page.getByLabel("Heads coloured by").selectOption("logprob_change");
  await expect(page.getByText("This needs a token that is not masked")).toBeVisible();
  await page.getByRole("option", { name: "bridge" }).click();
  await expect(page.getByText("This needs a token")).toBeHidden();
  await page.locator(".ranks .barred").first().click();
  await expect(view(page, "Maps")).toBeVisible();
});

test("no list of heads is called empty while a change is computed, and no scale runs from 0 to 0", async ({ watched: page, home }) => {
  let release = (): void => {};
  const held = new Promise<void>((done) => (release = done));
  await page.route("**/analyze", async (route) => {
    if ((route.request().postData() ?? "").includes('"heads":[2]')) await held;
    await route.continue().catch(() => {});
  });
  await open(page, home, `${QUERY}&edits=z11.3&depth=3&tone=attentions`);
  const heads = page.getByRole("region", { name: "Heads by change of attention" });
  await expect(heads).toContainText("None. A change in the last layer changes no map but its own.");
  const scale = page.getByRole("img", { name: "Change of state: all values are 0" });
  await expect(scale).toBeVisible();
  await expect(page.getByText("0 to 0", { exact: false })).toHaveCount(0);
  await head(page, 1, 2).click();
  await expect(heads).toContainText("Not known yet.");
  release();
  await expect(heads.locator(".barred")).toHaveCount(8);
});
