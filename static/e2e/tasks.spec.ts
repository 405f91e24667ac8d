// Models with a head of their own: what they say stands beside the text, over it and in experiments, and is the service's.
import type { APIRequestContext, Page } from "@playwright/test";
import { bodyRows, colours, expect, findings, open, ranked, readout, saved, settled, textOptions, taskTest as test, thumb, view } from "./viewer";

const TEXT = "Anna crossed the old bridge. The police closed it after the war.";
const QUESTION = "Who closed the bridge?";
const of = (model: string, view = "overview") => `view=${view}&model=${model}&text=${encodeURIComponent(TEXT)}`;
const ask = async (request: APIRequestContext, home: string, body: object) =>
  (await request.post(`${home}analyze`, { data: { text: TEXT, ...body } })).json();
const percent = (p: number): string => (p > 0 && p < 0.0005 ? "<\u00a00.1\u00a0%" : `${(100 * p).toFixed(p < 0.1 ? 1 : 0)}\u00a0%`);
// As the viewer writes values between 0.0001 and 100.
const written = (value: number): string => value.toPrecision(3).replace("-", "−");
const result = (page: Page) => page.getByRole("region", { name: "Result of the model" });

test("the class stands beside the text with its probability, in every view", async ({ watched: page, home, request }) => {
  const { classes } = await ask(request, home, { model: "moods", outputs: ["classes"] });
  const best = classes.labels.indexOf(classes.predicted);
  for (const name of ["overview", "head", "pairs"]) {
    await open(page, home, of("moods", name));
    const first = bodyRows(result(page).getByRole("table")).first();
    await expect(first).toContainText(classes.predicted);
    await expect(first).toContainText(percent(classes.probabilities[best]));
    await expect(bodyRows(result(page).getByRole("table"))).toHaveCount(3);
  }
  await page.setViewportSize({ width: 390, height: 844 });
  await page.reload();
  await expect(bodyRows(result(page).getByRole("table")).first()).toContainText(`${percent(classes.probabilities[best])}`);
});

test("the result fits into the panel", async ({ watched: page, home }) => {
  for (const model of ["moods", "tagger", "reader", "causal"]) {
    await open(page, home, of(model));
    await expect(page.getByRole("heading", { name: /^(Class|Labels of tokens|Answer|Next token)$/ })).toBeVisible();
    await settled(page);
    expect(await page.locator(".panel").evaluate((panel) => panel.scrollWidth - panel.clientWidth), model).toBe(0);
  }
});

test("an experiment shows the classes before and after", async ({ watched: page, home, request }) => {
  const edits = [{ layers: [2], heads: [0], kind: "zero" }, { layers: [9], heads: [4], kind: "zero" }];
  const { classes, changes } = await ask(request, home, { model: "moods", outputs: ["classes"], interventions: edits });
  await open(page, home, `${of("moods", "experiment")}&edits=z2.0_z9.4`);
  const row = view(page, "Experiment").locator(".bar-table tbody tr", { hasText: "calm" });
  await expect(row).toContainText(`${percent(changes.classes.probabilities[1])}${percent(classes.probabilities[1])}`);
});

test("two clicks colour the heads by their effect on the class; another class can be watched", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  const body = { model: "moods", layers: "all", outputs: ["effects", "classes"] };
  const { effects, classes } = await ask(request, home, body);
  const names = (rows: { target_change: number }[][]): string[] =>
    ranked(rows, (one) => Math.abs(one.target_change)).slice(0, 8).map(({ layer, head }) => `Layer ${layer} head ${head}`);
  const listed = page.getByRole("region", { name: /^(Heads by|Tokens that)/ }).first().locator(".barred span");
  await open(page, home, of("moods"));
  await page.getByRole("button", { name: "Which heads decide it?" }).click();
  await expect(page.getByText(`Watched: the logit of “${classes.predicted}”`)).toBeVisible();
  await page.getByLabel("Compute exactly").check();
  await expect.poll(() => listed.allTextContents()).toEqual(names(effects));
  await page.getByLabel("Class watched").selectOption("calm");
  const calm = await ask(request, home, { ...body, target: { class: "calm" } });
  await expect.poll(() => listed.allTextContents()).toEqual(names(calm.effects));
  await expect(page).toHaveURL(/watched=calm/);
});

for (const [what, fragment, target, words] of [
  ["a token's label", `${of("tagger", "experiment")}&at=2`, { class: expect.any(Number), position: 2 }, /Watched: the logit of “.*” at \S+ 2/],
  ["the loss", of("causal", "experiment"), { loss: true }, /Watched: the loss/],
  ["an answer", `${of("reader", "experiment")}&pair=${encodeURIComponent(TEXT)}`, { span: [expect.any(Number), expect.any(Number)] }, /Watched: the score of the answer/],
] as const)
  test(`effects follow ${what}`, { tag: "class" in target ? [] : "@slow" }, async ({ watched: page, home }) => {
    const requested = page.waitForRequest((request) => (request.postData() ?? "").includes('"target"'));
    await open(page, home, `${fragment}&tone=target_change`);
    expect((await requested).postDataJSON().target).toEqual(target);
    await expect(page.getByText(words)).toBeVisible();
    await expect(page.getByText("Heads switched off one by one")).toHaveCount(0);
  });

test("labels stand under the tokens, none where the label is O", async ({ watched: page, home, request }) => {
  const { classes, tokens } = await ask(request, home, { model: "tagger", outputs: ["classes"] });
  await open(page, home, of("tagger", "text"));
  await settled(page);
  const notes = await page.locator(".paper [data-t]").evaluateAll((all) =>
    all.map((token) => token.querySelector("rt")?.textContent ?? "O"));
  expect(notes).toEqual(classes.predicted);
  const t = classes.predicted.findIndex((label: string) => label !== "O");
  await page.locator(`.paper [data-t="${t}"]`).hover();
  const probability = classes.probabilities[t][classes.labels.indexOf(classes.predicted[t])];
  await expect(readout(page)).toContainText(`${tokens[t]} ${t}`);
  await expect(readout(page)).toContainText(`${classes.predicted[t]} ${percent(probability)}`);
  await page.getByLabel("Labels", { exact: true }).uncheck();
  await expect(page.locator(".paper rt")).toHaveCount(0);
});

test("the answer is listed and marked in the passage", async ({ watched: page, home, request }) => {
  const { answer } = await ask(request, home, { model: "reader", text: QUESTION, text_pair: TEXT, outputs: ["answer"] });
  const { start, end, text } = answer.best[0];
  await open(page, home, `view=text&model=reader&text=${encodeURIComponent(QUESTION)}&pair=${encodeURIComponent(TEXT)}`);
  await expect(result(page).getByRole("listitem").first()).toContainText(text);
  await expect(result(page).getByRole("listitem")).toHaveCount(answer.best.length);
  await settled(page);
  const marked = await page.locator(".paper .answer").evaluateAll((all) => all.map((token) => Number((token as HTMLElement).dataset.t)));
  expect(marked).toEqual(Array.from({ length: end - start + 1 }, (_, k) => start + k));
});

test("a causal model: the next token under each token, and the loss as a colour", async ({ watched: page, home, request }) => {
  const { loss, predictions, tokens } = await ask(request, home, { model: "causal", outputs: ["loss"], predictions: { top_k: 5 } });
  await open(page, home, of("causal", "text"));
  await settled(page);
  const notes = await page.locator(".paper rt").allTextContents();
  expect(notes).toEqual(predictions.map((one: { top: { token: string }[] }) => one.top[0]!.token));
  const picture = (await saved(page, "SVG")).bytes.toString();
  for (const note of notes) expect(picture).toContain(`>${note}</text>`);
  await page.getByRole("radio", { name: "Loss" }).check();
  await expect(page).toHaveURL(/loss=1/);
  await expect(page.locator(".caption").first()).toContainText("Loss of each token");
  const most = 1 + loss.tokens.indexOf(Math.max(...loss.tokens));
  const least = 1 + loss.tokens.indexOf(Math.min(...loss.tokens));
  const light = (t: number): Promise<number> =>
    page.locator(`.paper [data-t="${t}"]`).evaluate((token) =>
      getComputedStyle(token).backgroundColor.match(/\d+/g)!.slice(0, 3).reduce((sum, v) => sum + Number(v), 0));
  expect(await light(most)).toBeLessThan(await light(least));
  await expect(result(page)).toContainText(`Loss ${loss.mean.toPrecision(3)} nats`);
  await page.getByRole("radio", { name: "Attends to" }).check();
  await expect(page).not.toHaveURL(/loss=1/);
  expect(tokens.length).toBe(notes.length);
});

test("maps of a causal model are lower triangles", async ({ watched: page, home }) => {
  await open(page, home, `${of("causal", "head")}&layer=1&head=2`);
  await expect.poll(() => colours(page, ".plate canvas")).toBeGreaterThan(10);
  const clear = (selector: string, right: number, down: number): Promise<boolean> =>
    page.locator(selector).first().evaluate((node, [x, y]) => {
      const canvas = node as HTMLCanvasElement;
      return canvas.getContext("2d")!.getImageData(canvas.width * x!, canvas.height * y!, 1, 1).data[3] === 0;
    }, [right, down]);
  expect(await clear(".plate canvas", 0.9, 0.35)).toBe(true);
  expect(await clear(".plate canvas", 0.35, 0.9)).toBe(false);
  expect(await clear(".plate:nth-child(2) canvas", 0.9, 0.35)).toBe(false);
  await open(page, home, of("causal"));
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(5);
  expect(await clear(".thumb canvas", 0.9, 0.05)).toBe(true);
  expect(await clear(".thumb canvas", 0.05, 0.4)).toBe(false);
});

test("a long text opens with pooled maps, and ranks its heads by single cells", async ({ watched: page, home, request }) => {
  const text = "The old bridge closed after the war. ".repeat(100);
  const requests: string[][] = [];
  page.on("request", (sent) => sent.url().endsWith("/analyze") && requests.push(sent.postDataJSON().outputs));
  await open(page, home, `view=overview&model=causal&max=700&show=both&small=0&text=${encodeURIComponent(text)}`);
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(5);
  await settled(page);
  const maps = (names: string[]): boolean => names.some((name) => ["attentions", "similarities", "head_outputs"].includes(name));
  expect(requests.filter(maps)).toEqual([]); // neither of this text nor of the sample text
  expect(requests.some((names) => names.includes("max_pooled_attentions"))).toBe(true);
  await expect(view(page, "Heads")).toContainText("square root, 0 to 1; largest of 6 × 6");
  // The card comes with the pointer. The heads stay where they are, and its bars say the same.
  await page.getByRole("radio", { name: "Attention", exact: true }).check();
  const card = page.getByRole("region", { name: "Enlarged head" });
  await expect(card).toHaveCount(0);
  const { y } = (await thumb(page, 1, 2).boundingBox())!;
  await thumb(page, 1, 2).hover();
  await expect(card).toContainText("square root, 0 to 1; largest of 6 × 6");
  expect((await thumb(page, 1, 2).boundingBox())!.y).toBe(y);
  await open(page, home, `view=head&model=causal&max=700&layer=1&head=2&pin=9.5&ties=1&tie=to&text=${encodeURIComponent(text)}`);
  const [[row]] = (await ask(request, home, { model: "causal", text, max_tokens: 700, layers: [1], heads: [2], outputs: ["sliced_attentions"],
    rows: [9, 10], columns: [5, 6] })).sliced_attentions;
  await expect(page.getByRole("list", { name: "Heads, strongest first" })).toContainText(String(Number(row[0][0].toPrecision(3))));
  // A head of a still longer one has pooled maps, and a window around the pinned cell.
  const longer = text.repeat(3);
  await open(page, home, `view=head&model=causal&max=2100&layer=1&head=2&pin=2090.300&text=${encodeURIComponent(longer)}`);
  await expect(page.locator(".plate:visible")).toHaveCount(4);
  await expect(page.locator(".plate:visible").last()).toContainText("tokens 1972–2099 by 256–383");
  await settled(page);
  expect(requests.filter(maps)).toHaveLength(1); // the head of the shorter text
  expect(await colours(page, ".plate canvas")).toBeGreaterThan(5);
  // Its cell, in the readout, in the table of its row and in the saved window, has the service's values.
  const exact = await ask(request, home, { model: "causal", text: longer, max_tokens: 2100, layers: [1], heads: [2], digits: 9,
    outputs: ["sliced_attentions", "sliced_similarities", "summary"], rows: [2090, 2091], columns: [256, 384] });
  const [attention, similarity] = ["attentions", "similarities"].map((name) => exact[`sliced_${name}`][0][0][0] as number[]);
  const of = exact.summary[0][0].max_similarity as number;
  const near = [attention[44]!, similarity[44]!, similarity[44]! / of];
  await expect(readout(page)).toContainText(near.map((v, k) => `${"ASN"[k]} ${written(v)}`).join("   "));
  await page.getByText("Pinned row as a table").click();
  const values = page.getByRole("region", { name: /^Values of the row/ }).getByRole("row");
  await expect(values).toHaveCount(129);
  await expect(values.nth(45)).toHaveText(new RegExp(`^300.*${near.map(written).join("").replaceAll(".", "\\.")}$`));
  const { file, bytes } = await saved(page, "CSV");
  expect(file).toContain("head-l1-h2-window");
  const cells = bytes.toString().trim().split(/\r?\n/);
  expect(cells).toHaveLength(1 + 128 * 128);
  const [, , , , ...row300] = cells.find((line) => line.startsWith("2090,300,"))!.split(",");
  row300.forEach((value, k) => expect(Number(value)).toBeCloseTo(near[k]!, 5));
  // An overlay of whole maps is not drawn, and the control says so.
  await open(page, home, `view=head&model=causal&max=2100&layer=1&head=2&pin=2090.300&overlay=mask&text=${encodeURIComponent(longer)}`);
  await expect(page.getByLabel("Overlay").locator("option:checked")).toHaveText("None");
  await settled(page);
  // It is zoomed; the pooled maps are not. A cell of theirs opens its window as a whole.
  await page.getByRole("button", { name: "Zoom in" }).click();
  await expect(page).toHaveURL(/zoom=/);
  expect((await saved(page, "CSV")).bytes.toString().trim().split(/\r?\n/).length).toBeLessThan(82 * 82);
  await page.getByRole("application", { name: "Attention map, pooled" }).press("Home");
  await expect(page).not.toHaveURL(/zoom=/);
  await expect(page.locator(".plate:visible").last()).toContainText("tokens 1972–2099 by 0–127");
  // Its largest cells and its pairs are of single heads, so it has no sum of heads.
  await open(page, home, `view=pairs&model=causal&max=2100&layer=1&head=-1&text=${encodeURIComponent(longer)}`);
  await expect(page.getByText("Heads are summed for texts of at most 2,048 tokens. Head 0 is shown instead.")).toBeVisible();
  await expect(page.locator(".parts")).toContainText("Layer 1 · head 0");
  await expect(page.locator(".strip-heads .sum")).toHaveCount(0);
  // Its text has elements for the tokens near the window. Keys reach all, and a chosen one fetches its row.
  await open(page, home, `view=text&model=causal&max=2100&layer=1&head=2&text=${encodeURIComponent(longer)}`);
  await page.locator("[data-t='0']").focus();
  await page.keyboard.press("End");
  await expect(page.locator("[data-t='2099']")).toBeFocused();
  expect(await page.locator("[data-t]").count()).toBeLessThan(1500);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await expect(page.locator("[aria-selected=true]")).toHaveAttribute("data-t", "2098");
  await expect(page.locator(".card.attention li").first()).toBeVisible();
  await settled(page);
  expect(await findings(page)).toEqual([]);
  // Lines are of four heads: the rows of the others are fetched for the chosen token, all of the layer at once.
  await expect(page.getByLabel("Heads whose attention is drawn").getByRole("checkbox", { checked: true })).toHaveCount(4);
  const lined = (await saved(page, "CSV")).bytes.toString().trim().split(/\r?\n/).map((row) => row.split(","));
  const [[fetched]] = (await ask(request, home, { model: "causal", text: longer, max_tokens: 2100, layers: [1], heads: [3], outputs: ["sliced_attentions"],
    rows: [2098, 2099], columns: [0, 2100] })).sliced_attentions;
  const at = lined[0]!.indexOf("attends_to_l1_h3");
  expect(at).toBeGreaterThan(0);
  for (const t of [0, 1000, 2098]) expect(Number(lined[t + 1]![at])).toBeCloseTo(fetched[0][t], 5);
  const [arrays] = await Promise.all([page.waitForRequest((sent) => sent.url().endsWith("format=npz")), saved(page, "npz")]);
  expect(arrays.postDataJSON()).toMatchObject({ layers: [1], heads: expect.arrayContaining([2, 3]), rows: [2098, 2099], columns: [0, 2100] });
  // Its colours can be losses, too. Words under its tokens are left out.
  await page.getByRole("radio", { name: "Loss" }).check();
  await expect(page.locator(".colour-bar")).toContainText("Loss, nats");
  await expect(page.locator("[data-t='2097']")).toHaveAttribute("style", /background/);
  await expect(page.locator(".paper ruby")).toHaveCount(0);
  const table = (await saved(page, "CSV")).bytes.toString().trim().split(/\r?\n/);
  expect(table[0]).toMatch(/attends_to/);
  expect(table).toHaveLength(2101);
  await open(page, home, `view=compare&model=causal&max=2100&layer=1&head=2&text=${encodeURIComponent(longer)}`);
  await expect(view(page, "Compare")).toContainText("This view reads a head’s whole maps");
  await settled(page);
  expect(requests.filter(maps)).toHaveLength(1);
});

test("a prediction of a causal model is named after the token before it", async ({ watched: page, home, request }) => {
  const { predictions, tokens } = await ask(request, home, { model: "causal", predictions: { top_k: 5 }, outputs: [] });
  await open(page, home, `${of("causal", "experiment")}&at=3&lens=1`);
  const card = page.getByRole("region", { name: /^Predictions: / });
  await expect(card.getByRole("heading")).toHaveText(`After ${tokens[3]} 3`);
  await expect(card).toContainText(`What follows, “${tokens[4]}”: `);
  await expect(bodyRows(card.getByRole("table")).first()).toContainText(predictions[3].top[0].token);
  await expect(page.getByRole("region", { name: `Lens after ${tokens[3]} 3` })).toBeVisible();
  await page.getByRole("button", { name: "Back to the last token" }).click();
  await expect(card.getByRole("heading")).toHaveText(`After . ${tokens.length - 2}`);
});

for (const [width, scheme, model, name] of [[1280, "light", "moods", "experiment"], [390, "dark", "tagger", "text"], [390, "light", "reader", "text"],
  [1280, "dark", "causal", "text"]] as const)
  test(`axe finds nothing serious or moderate: ${model}, ${scheme}`, { tag: "@slow" }, async ({ watched: page, home }) => {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await open(page, home, `${of(model, name)}&loss=1`);
    await settled(page);
    if (width < 900) await textOptions(page);
    expect(await findings(page)).toEqual([]);
  });
