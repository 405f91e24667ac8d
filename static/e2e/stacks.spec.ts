// Models that write: whose heads are shown, the target, and maps between two texts.
import type { Page } from "@playwright/test";
import { analysed, bodyRows, chosenTokens, colours, expect, findings, goTo, maps, headMap, modelBox, open, pairRows, readout, runCard, runOptions, saved, settled, taskTest as test, view } from "./viewer";

const TEXT = "Anna crossed the old bridge.";
const TARGET = "The police closed it after the war.";
const of = (name: string, more = "") =>
  `view=${name}&model=writer&text=${encodeURIComponent(TEXT)}&stack=cross${more}`;
const target = `&target=${encodeURIComponent(TARGET)}`;

test("the stack is chosen beside the model; its decoder reads a target, or the model writes it", async ({ watched: page, home, request }) => {
  await open(page, home, `view=overview&text=${encodeURIComponent(TEXT)}`);
  await expect(page.getByLabel("Heads of")).toHaveCount(0);
  await modelBox(page).selectOption("writer");
  await page.getByLabel("Heads of").selectOption("cross");
  const { generated, source_tokens } = await (await request.post(`${home}analyze`, {
    data: { model: "writer", text: TEXT, stack: "cross", max_new_tokens: 30, outputs: [] } })).json();
  await expect(analysed(page)).toContainText(`${generated.length} tokens (30 written by the model) of the target × ${source_tokens.length} of the text`);
  await expect(page).toHaveURL(/stack=cross.*write=30/);
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(5);
  await page.getByLabel("Target text").fill(TARGET);
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(analysed(page)).toContainText(`11 tokens of the target × ${source_tokens.length} of the text`);
  await expect(page.getByLabel("Let the model write it")).toHaveCount(0);
  expect(await findings(page)).toEqual([]);
  await page.getByLabel("Heads of").selectOption("encoder");
  await expect(page).not.toHaveURL(/stack=/);
  await settled(page);
  await open(page, home, of("overview"));
  await expect(page.getByRole("alert").first()).toContainText("The decoder has no text to read. Type the target text, or let the model write it.");
});

test("a cross head has target tokens as rows and text tokens as columns, on screen and saved", async ({ watched: page, home, request }) => {
  const { tokens, source_tokens, attentions } = await (await request.post(`${home}analyze`, {
    data: { model: "writer", text: TEXT, text_target: TARGET, stack: "cross", layers: [1], heads: [2], digits: 9 } })).json();
  const value = (i: number, j: number): number => attentions[0][0][i][j];
  await open(page, home, of("head", `${target}&layer=1&head=2&pin=10.6`));
  await expect.poll(() => colours(page, ".plate canvas")).toBeGreaterThan(10);
  await settled(page);
  const written = (i: number, j: number): string => `target ${tokens[i]} ${i} → text ${source_tokens[j]} ${j}   A ${Number(value(i, j).toPrecision(3))}`;
  await expect(readout(page)).toContainText(written(10, 6));
  // The last row and column are the ends of the keyboard.
  await maps(page).first().focus();
  for (const key of ["End", "ArrowRight", "ArrowDown"]) await page.keyboard.press(key);
  const last = source_tokens.length - 1;
  await expect(readout(page)).toContainText(written(10, last));
  await page.getByText("Pinned row as a table").click();
  await expect(bodyRows(view(page, "Maps").getByRole("table"))).toHaveCount(source_tokens.length);
  const { file, bytes } = await saved(page, "CSV");
  expect(file).toContain("cross-head-l1-h2");
  const [header, ...lines] = bytes.toString().replace("\ufeff", "").trim().split(/\r?\n/);
  expect(header).toBe("target,source,token_target,token_source,attention");
  expect(lines).toHaveLength(tokens.length * source_tokens.length);
  const [i, j, , , a] = lines.at(-2)!.split(",").map(Number);
  expect([i, j]).toEqual([10, last - 1]);
  expect(a).toBeCloseTo(value(10, last - 1), 6);
});

test("arrays of cross heads that were saved open again, with the tokens of both texts", async ({ watched: page, home, request }) => {
  const { tokens, source_tokens, attentions } = await (await request.post(`${home}analyze`, {
    data: { model: "writer", text: TEXT, text_target: TARGET, stack: "cross", layers: [1], heads: [2], digits: 9 } })).json();
  await open(page, home, of("head", `${target}&layer=1&head=2`));
  await settled(page);
  const { file, bytes } = await saved(page, "npz");
  const sent: string[] = [];
  page.on("request", (one) => /analyze|tokenize/.test(one.url()) && sent.push(one.url()));
  await page.keyboard.press("o");
  await page.getByRole("dialog", { name: "Open a file" }).getByLabel("File").setInputFiles({ name: file, mimeType: "application/zip", buffer: bytes });
  const card = page.getByRole("region", { name: "Opened file" });
  const last = source_tokens.length - 1;
  await expect(card).toContainText(`1 × 1 heads, 11 tokens of the target × ${last + 1} of the text`);
  await expect.poll(() => colours(page, ".plate canvas")).toBeGreaterThan(10);
  await settled(page);
  await maps(page).first().focus();
  for (const key of ["ArrowDown", "ArrowDown", "End"]) await page.keyboard.press(key); // the first one shows a cell
  const value = Number(attentions[0][0][1][last].toPrecision(3));
  await expect(readout(page)).toContainText(`target ${tokens[1]} 1 → text ${source_tokens[last]} ${last}   A ${value}`);
  for (const name of ["Text", "Pairs", "Compare", "Heads"]) {
    await goTo(page, name);
    await expect(view(page, name)).toBeVisible();
    await settled(page);
  }
  expect(sent).toEqual([]);
});

test("Text has lines between both texts, and marks what the model wrote", async ({ watched: page, home, request }) => {
  const ask = async (body: object) => (await request.post(`${home}analyze`, { data: { model: "writer", text: TEXT, stack: "cross", ...body } })).json();
  const { tokens, source_tokens, attentions } = await ask({ max_new_tokens: 6, layers: [1], heads: [2], digits: 9 });
  await open(page, home, of("text", "&write=6&layer=1&head=2"));
  const written = page.locator(".paper .token.generated");
  await expect(written).toHaveCount(6);
  await expect(page.getByText("Underlined tokens were written by the model.")).toBeVisible();
  await written.nth(2).click();
  await expect(chosenTokens(page)).toHaveCount(1);
  await expect(readout(page)).toContainText(`target ${tokens[3]} 3   sentence 0   written by the model`);
  const row: number[] = attentions[0][0][3];
  const best = row.indexOf(Math.max(...row));
  const listed = page.locator(".lists section");
  await expect(listed).toHaveCount(1);
  await expect(listed.getByRole("button").first()).toHaveText(`${source_tokens[best]}${best}${Number(row[best]!.toPrecision(3))}`);
  await expect.poll(() => page.locator(".arcs .arc").count()).toBeGreaterThan(0);
  expect(await findings(page)).toEqual([]);
  // A token of the text shows those that attend to it.
  await page.locator(`.paper [data-t="${best}"]`).click();
  await expect(page.getByRole("radio", { name: "Attended by" })).toBeChecked();
  const { bytes } = await saved(page, "CSV");
  const line = bytes.toString().split(/\r?\n/).find((one) => one.startsWith("target,3,"));
  expect(Number(line!.split(",").at(5))).toBeCloseTo(row[best]!, 6);
});

test("Pairs and Compare show a cross head by similarities of the target's tokens", async ({ watched: page, home, request }) => {
  const data = { model: "writer", text: TEXT, text_target: TARGET, stack: "cross", layers: [1], heads: [2], outputs: ["pairs"] };
  const { pairs, tokens } = await (await request.post(`${home}analyze`, { data })).json();
  await open(page, home, of("head", `${target}&layer=1&head=2&pin=3.5`));
  await settled(page);
  await goTo(page, "Pairs");
  await expect(page).not.toHaveURL(/pin=/);
  await pairRows(page).first().click();
  const [{ i, j }] = pairs;
  await expect(readout(page)).toContainText(`target ${tokens[i]} ${i} and ${tokens[j]} ${j}   S `);
  await goTo(page, "Compare");
  await page.getByRole("radio", { name: "Another head" }).check();
  await expect(view(page, "Compare")).toContainText(`${tokens.length} tokens of the target`);
  await expect(page.getByRole("radio", { name: "Attention" })).toHaveCount(0);
  await page.getByRole("radio", { name: "Another model" }).check();
  await expect(view(page, "Compare")).toContainText("The second model has no decoder to compare with");
  await settled(page);
});

test("an experiment changes cross heads, and predicts the target's next token", async ({ watched: page, home, request }) => {
  const edits = [{ layers: [1], heads: [0], kind: "zero" }];
  const options = { model: "writer", text: TEXT, text_target: TARGET, stack: "cross", layers: "all", heads: "all" };
  const { predictions, tokens, changes } = await (await request.post(`${home}analyze`, {
    data: { ...options, outputs: ["predictions"], predictions: { positions: [4], top_k: 3 }, interventions: edits } })).json();
  await open(page, home, of("experiment", `${target}&edits=z1.0&at=4`));
  const card = page.getByRole("region", { name: /^Predictions: / });
  await expect(card.getByRole("heading")).toHaveText(`After ${tokens[4]} 4`);
  await expect(card.getByRole("table")).toContainText(predictions[0].top[0].token);
  await expect(page.getByRole("radio", { name: "Identity" })).toHaveCount(0);
  await expect(page.locator(".token-strip [data-t]")).toHaveCount(tokens.length);
  const { bytes } = await saved(page, "CSV");
  const line = bytes.toString().split(/\r?\n/).find((one) => one.startsWith("change of similarities,2,3,"));
  expect(Number(line!.split(",").at(-1))).toBeCloseTo(changes.similarities[2][3], 6);
  // The strongest routes begin at tokens of both texts. Their heads are switched off, whatever their stack.
  await page.getByRole("button", { name: "Trace it" }).click();
  const routes = page.getByRole("button", { name: / → .* by (cross|decoder) \d/ });
  await page.getByRole("combobox", { name: "Routes" }).selectOption("40");
  await expect(routes).toHaveCount(40);
  await expect(page.locator(".routes svg")).toContainText("target");
  const across = page.getByRole("button", { name: /^text .* → target .* by cross/ });
  const within = routes.filter({ hasText: /by decoder/ });
  expect(await across.count()).toBeGreaterThan(0);
  const [, layer, head] = /by decoder (\d+)·(\d+)/.exec((await within.first().textContent())!)!;
  await page.getByRole("listitem").filter({ has: within.first() }).first().getByRole("button", { name: /^Switch off/ }).click();
  await expect(page).toHaveURL(new RegExp(`edits=z1\\.0_.*zD${layer}\\.${head}`));
  await expect(page.locator(".route-list")).toContainText(/1 head switched off.*\d decoder heads? switched off/);
  const { bytes: listed } = await saved(page, "CSV");
  expect(listed.toString()).toMatch(/from_token,to,to_token,heads\r?\n/);
  expect(await findings(page)).toEqual([]);
  await goTo(page, "Experiment");
  // Changes are of heads of one stack.
  await page.getByRole("combobox", { name: "Heads of" }).selectOption("decoder");
  await expect(page).toHaveURL(/stack=decoder/);
  await expect(page).not.toHaveURL(/edits=/);
  await settled(page);
});

test("heads of layers with few heads are numbered, on screen, on a phone and in the picture", async ({ watched: page, home }) => {
  const numbers = ["H0", "H1", "H2", "H3"];
  await open(page, home, of("overview", target));
  await settled(page);
  const header = page.getByRole("columnheader", { name: /^H\d/ });
  await expect(header).toHaveText(numbers);
  const picture = (await saved(page, "SVG")).bytes.toString();
  expect([...picture.matchAll(/>(H\d+)<\/text>/g)].map((m) => m[1])).toEqual(numbers);
  await page.setViewportSize({ width: 400, height: 800 });
  for (const one of await header.all()) await expect(one).toBeVisible();
  // Large layers of few heads are side by side: each head has its name.
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByRole("radio", { name: "Both" }).check();
  await expect(header).toHaveCount(0);
  await expect(page.locator(".thumb b").first()).toHaveText("0·0");
  expect((await saved(page, "SVG")).bytes.toString()).toContain(">2·3</text>");
});

// Starts a run of cross heads by the form, and waits for its end.
async function runOfCrossHeads(page: Page, home: string): Promise<void> {
  await open(page, home, "view=corpus");
  const form = page.getByRole("form", { name: "New run" });
  await form.getByRole("combobox", { name: "Model" }).selectOption("writer");
  await runOptions(page).click();
  const options = ["Label field", "Share for effects"].map((name) => form.getByRole("textbox", { name }));
  await options[0]!.fill("label"); // not sent
  await expect(form).not.toContainText("need heads of the encoder");
  await form.getByRole("combobox", { name: "Heads of" }).selectOption("cross");
  for (const option of options) await expect(option).toBeDisabled();
  await expect(form).toContainText("Labels and effects need heads of the encoder");
  expect(await findings(page)).toEqual([]);
  const lines = Array.from({ length: 6 }, (_, n) => JSON.stringify({ text: `${TEXT} ${n}`, text_target: `${TARGET} ${n}` }));
  await page.getByLabel("Drop a file").setInputFiles({ name: "both.jsonl", mimeType: "application/x-ndjson", buffer: Buffer.from(lines.join("\n")) });
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(runCard(page, "both.jsonl")).toContainText("Done");
}

test("a run of cross heads has no options of labels, its card names the heads, and it has patterns", async ({ watched: page, home }) => {
  await runOfCrossHeads(page, home);
  await expect(runCard(page, "both.jsonl")).toContainText("writer · cross heads · 6 texts");
  await page.getByText("Patterns of all heads").click();
  const part = page.locator(".run-compare details", { hasText: "Patterns of all heads" });
  await expect(part).toContainText("Cross heads attend from one text to another");
  await expect(part.getByRole("combobox", { name: "Map of" }).getByRole("option")).toHaveText(["first", "separators", "punctuation", "entropy"]);
  await expect(bodyRows(headMap(part))).not.toHaveCount(0);
  await expect(part.getByRole("table").last()).toContainText("Separators");
  await expect(part).not.toContainText("Clark");
});
