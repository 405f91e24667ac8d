// Corpus runs: from a file to a report, and two reports side by side.
import { readFileSync } from "node:fs";
import type { APIRequestContext, Page } from "@playwright/test";
import { colours, expect, exportMenu, findings, looking, open, type Place, readout, reload, runCard, runOptions, saved, settled, test, textBox, view } from "./viewer";

const jsonl = (texts: readonly string[]): Buffer =>
  Buffer.from(texts.map((text) => JSON.stringify({ text })).join("\n"));
const STORIES = Array.from(
  { length: 12 },
  (_, n) => `The dog ${n} saw the cat. The cat ran, and the dog ran after it. Then it was ${n}.`,
);
const RULES = Array.from({ length: 12 }, (_, n) => `A server, a client, and ${n} requests, none of them late.`);

async function begin(page: Page, name: string, mimeType: string, buffer: Buffer): Promise<void> {
  await page.getByLabel("Drop a file").setInputFiles({ name, mimeType, buffer });
  await expect(page.getByRole("form", { name: "New run" })).toContainText(name);
  await page.getByRole("button", { name: "Start the run" }).click();
}


// The runs of these names, done; made when the server has none of them yet.
async function withRuns(page: Page, home: string, fragment = ""): Promise<void> {
  await open(page, home, `view=corpus${fragment}`);
  await settled(page);
  await expect(page.locator(".corpus .muted[role=status]")).toHaveCount(0);
  if (await runCard(page, "rules.txt").count()) return;
  await begin(page, "stories.jsonl", "application/x-ndjson", jsonl(STORIES));
  await expect(runCard(page, "stories.jsonl")).toContainText("Done");
  await begin(page, "rules.txt", "text/plain", Buffer.from(RULES.join("\n")));
  await expect(runCard(page, "rules.txt")).toContainText("Done");
}

test("a server without a folder for runs says how to get one", async ({ page, home }) => {
  await page.route("**/corpora?*", (route) =>
    route.fulfill({ status: 501, json: { status: 501, title: "Not Implemented" } }),
  );
  await open(page, home, "view=corpus");
  await expect(view(page, "Corpus")).toContainText("headscope serve --state DIR");
  await expect(page.getByRole("button", { name: "Start the run" })).toBeHidden();
});

test("a file becomes a run, watched to its end, with a report", async ({ watched: page, home, context }) => {
  await withRuns(page, home);
  await expect(runCard(page, "stories.jsonl")).toContainText("12 texts");
  const opened = context.waitForEvent("page");
  await runCard(page, "stories.jsonl").getByRole("link", { name: "Open the report" }).click();
  const report = await opened;
  await expect(report.getByRole("heading", { level: 1 })).toHaveText("How this model pays attention");
});

test("a run of the sample in one click: its texts are those of examples/paragraphs.txt", async ({ watched: page, home, request }) => {
  await open(page, home, "view=corpus");
  const form = page.getByRole("form", { name: "New run" });
  await expect(form.getByRole("textbox")).toHaveCount(0); // all are among the options
  await form.getByRole("button", { name: "Run the sample" }).click();
  const texts = readFileSync("../examples/paragraphs.txt", "utf8").split("\n").filter(Boolean).length;
  await expect(form).toContainText(`${texts} paragraphs`);
  await expect(runCard(page, "paragraphs.txt")).toContainText(/Waiting|Running|Done/); // a busy machine counts them for minutes
  const { corpora } = await (await request.get(`${home}corpora`)).json();
  expect(corpora[0]).toMatchObject({ name: "paragraphs.txt", texts_total: texts });
  const run = `${home}corpora/${corpora[0].id}`; // others wait for it, and compare the newest runs
  await request.post(`${run}/cancel`);
  await expect.poll(async () => (await (await request.get(run)).json()).state).toMatch(/cancelled|done/);
  expect((await request.delete(run)).ok()).toBe(true);
});

test("bad lines are shown with their numbers; a run can be deleted", async ({ watched: page, home }) => {
  await open(page, home, "view=corpus");
  const buffer = Buffer.from(
    `${JSON.stringify({ text: "One text." })}\nnot JSON\n${JSON.stringify({ text: "Another." })}\n`,
  );
  await begin(page, "flawed.jsonl", "application/x-ndjson", buffer);
  await expect(runCard(page, "flawed.jsonl")).toContainText("Done");
  await expect(runCard(page, "flawed.jsonl")).toContainText("Left out 1 line: 2");
  page.on("dialog", (dialog) => void dialog.accept());
  await runCard(page, "flawed.jsonl").getByRole("button", { name: "Delete" }).click();
  await expect(runCard(page, "flawed.jsonl")).toHaveCount(0);
  await settled(page);
  await expect(page.getByText("The address names the run")).toHaveCount(0);
});

test("a run is shown while it works, and can be cancelled", async ({ watched: page, home }) => {
  await open(page, home, "view=corpus");
  const long = Array.from({ length: 20_000 }, (_, n) => `${STORIES[n % 12]} ${STORIES[(n + 5) % 12]} ${n}`);
  await begin(page, "long.jsonl", "application/x-ndjson", jsonl(long));
  await expect(runCard(page, "long.jsonl")).toContainText("Running");
  await expect(runCard(page, "long.jsonl").getByRole("progressbar")).toBeVisible();
  await expect(runCard(page, "long.jsonl")).toContainText("texts/s");
  await runCard(page, "long.jsonl").getByRole("button", { name: "Cancel" }).click();
  await expect(runCard(page, "long.jsonl")).toContainText("Cancelled");
  await expect(runCard(page, "long.jsonl").getByRole("link", { name: "Open the report" })).toBeVisible();
});

test("a file dropped beside its zone is taken, and the page stays", async ({ watched: page, home }) => {
  await open(page, home, "view=corpus");
  await expect(page.getByRole("form", { name: "New run" })).toBeVisible();
  const dropped = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(["A dog ran."], "beside.txt", { type: "text/plain" }));
    return data;
  });
  for (const kind of ["dragover", "drop"]) await page.dispatchEvent(".top", kind, { dataTransfer: dropped });
  await expect(page.getByRole("form", { name: "New run" })).toContainText("beside.txt");
});

test("an error of the server stands beside its option", async ({ watched: page, home }) => {
  await open(page, home, "view=corpus");
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(page.getByLabel("Drop a file")).toHaveAccessibleDescription(/Choose the file/);
  await runOptions(page).click();
  await page.getByRole("textbox", { name: "Tokens at most" }).fill("99999");
  await runOptions(page).click(); // folded again
  await begin(page, "stories.jsonl", "application/x-ndjson", jsonl(STORIES));
  await expect(page.getByRole("textbox", { name: "Tokens at most" })).toHaveAccessibleDescription(/Tokens at most is 99999; it must be an integer from 2 to 512/);
  await expect(page.getByRole("textbox", { name: "Tokens at most" })).toHaveAttribute("aria-invalid", "true");
  await page.getByRole("textbox", { name: "Tokens at most" }).fill("128");
  await page.getByRole("textbox", { name: /^Layers: all/ }).fill("99");
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(page.getByRole("textbox", { name: /^Layers: all/ })).toHaveAccessibleDescription(/Layers is 99; it must be a layer of the model: 0 to 11/);
  await expect(page.getByRole("textbox", { name: "Tokens at most" })).toHaveAccessibleDescription("");
});

test("two runs side by side: the numbers are the reports'", async ({ watched: page, home, request }) => {
  await withRuns(page, home);
  const { corpora } = await (await request.get(`${home}corpora`)).json();
  const runs = ["stories.jsonl", "rules.txt"].map(
    (name) => corpora.find((run: { name: string }) => run.name === name).id,
  );
  const reports = await Promise.all(runs.map(async (id) => (await request.get(`${home}corpora/${id}/report`)).json()));
  await open(page, home, `view=corpus&run=${runs[0]}&run2=${runs[1]}&figure=mean_distance`);
  await reload(page);
  const figures = view(page, "Corpus").getByRole("figure");
  await expect(figures).toHaveCount(27);
  for (const figure of await figures.all()) await expect(figure.getByRole("img")).toBeVisible(); // the server's charts
  const figure = page.getByRole("region", { name: "Mean distance of high pairs", exact: true });
  await figure.getByText("Numbers of layers").click();
  const rows = figure.getByRole("row");
  await expect(rows).toHaveCount(1 + 12);
  const numbers = async (row: number): Promise<number[]> =>
    (await rows.nth(1 + row).getByRole("cell").allTextContents()).map((t) => parseFloat(t.replace("−", "-"))); // its interval follows
  const [a, b] = reports.map((r) => r.layer_figures[2][4].mean_distance);
  for (const [n, value] of [a, b, a - b].entries())
    expect(Math.abs((await numbers(4))[n]! - value)).toBeLessThan(0.0011);
  await figure.getByText("Numbers of layers").click();
  await figure.getByText("Numbers of heads").click();
  await expect(rows).toHaveCount(1 + 144);
  await figure.getByRole("button", { name: "First − second" }).click();
  await expect(figure.getByRole("columnheader", { name: "First − second" })).toHaveAttribute("aria-sort", "descending");
  const sizes = (await rows.locator("td:last-child").allTextContents())
    .filter((t) => t !== "–")
    .map((t) => Math.abs(Number(t.replace("−", "-"))));
  expect(sizes).toEqual([...sizes].sort((p, q) => q - p));
  await page.getByRole("combobox", { name: "Threshold", exact: true }).selectOption("0.5");
  await expect(page).toHaveURL(/level=0.5/);
  const t = reports[0].thresholds.findIndex((tau: number) => Math.abs(tau - 0.5) < 1e-6);
  await figure.getByText("Numbers of layers").click();
  await expect.poll(async () => Math.abs((await numbers(4))[0]! - reports[0].layer_figures[t][4].mean_distance)).toBeLessThan(0.0006);
  await page.getByRole("button", { name: "Attention on the next token" }).click();
  await expect(page.getByRole("region", { name: "Attention on the next token", exact: true }).getByRole("img")).toHaveCount(2);
  const [header] = (await saved(page, "CSV")).bytes.toString().split("\r\n");
  expect(header).toBe("figure,threshold,layer,head,first,second");
  const next = page.getByRole("region", { name: "Attention on the next token", exact: true });
  await next.getByRole("button", { name: "3·5", exact: true }).click();
  await expect(page).toHaveURL(/view=head.*layer=3&head=5/);
});

// A run by the API, done.
async function made(request: APIRequestContext, home: string, query: string): Promise<string> {
  const begun = await request.post(`${home}corpora?max_tokens=32&${query}`, {
    headers: { "Content-Type": "application/x-ndjson" },
    data: jsonl([...STORIES, ...RULES]),
  });
  const { id } = (await begun.json()) as { id: string };
  await expect.poll(async () => (await (await request.get(`${home}corpora/${id}`)).json()).state).toBe("done");
  return id;
}

test("the pruning curve is the server's figure, with its table", async ({ watched: page, home, request }) => {
  const id = await made(request, home, "name=pruned&pruning_share=0.4&masked_share=0.2&layers=11");
  const { pruning } = await (await request.get(`${home}corpora/${id}/report`)).json();
  await open(page, home, `view=corpus&run=${id}&run2=-`);
  const part = view(page, "Corpus").locator("details", { hasText: "Pruning curve of pruned" });
  await expect(part.getByRole("img")).toHaveCount(2);
  await expect(part.getByRole("row")).toHaveCount(1 + Object.keys(pruning.rankings).length);
  await expect(part).toContainText(`${pruning.texts} texts`);
  await page.emulateMedia({ reducedMotion: "reduce" });
  await settled(page);
  expect(await findings(page)).toEqual([]);
});

test("one head on its twelve most typical texts: from the head, to the analysis of a text", async ({
  watched: page,
  home,
  request,
}) => {
  const id = await made(request, home, "name=typical&examples=12");
  const [{ layer, head }] = (await looking(request, home, "previous")) as [Place];
  await open(page, home, `view=head&layer=${layer}&head=${head}&run=${id}`);
  await page.getByRole("button", { name: "Typical texts" }).click();
  const texts = page.getByRole("list", { name: `Typical texts of layer ${layer} head ${head}` }).getByRole("listitem");
  await expect(texts).toHaveCount(12);
  await expect(texts.last()).toContainText("strongest");
  await expect(page.getByLabel("Typical by")).toHaveValue("pattern");
  await expect(page.getByLabel("Typical by").locator("option:checked")).toHaveText("its pattern (previous)");
  const query = `layer=${layer}&head=${head}&by=previous&limit=12`;
  const { examples } = await (await request.get(`${home}corpora/${id}/examples?${query}`)).json();
  expect(await texts.locator("b").allTextContents()).toEqual(
    examples.map(({ value }: { value: number }) => `${Math.round(100 * value)}\u00a0%`),
  );
  expect(await texts.locator(".text").allTextContents()).toEqual(examples.map(({ body }: { body: string }) => body));
  await expect.poll(() => colours(page, ".multiples canvas")).toBeGreaterThan(5);
  const table = (await saved(page, "CSV of texts")).bytes.toString().trim().split("\r\n");
  expect(table).toHaveLength(13);
  expect(table[1]).toContain(`${layer},${head},previous,${examples[0].file},${examples[0].line},${examples[0].value},`);
  const picture = (await saved(page, "SVG of texts")).bytes.toString();
  expect(picture.match(/<image /g)).toHaveLength(12);
  for (const strongest of await texts.locator("p").allTextContents()) expect(picture).toContain(strongest.split(" ").at(-1));
  expect(picture).not.toContain("Typical by");
  expect((await saved(page, "PNG of texts")).bytes.subarray(1, 4).toString()).toBe("PNG");
  await texts.nth(2).getByRole("button").focus();
  await page.keyboard.press("Enter");
  await expect(view(page, "Maps")).toBeVisible();
  await expect(textBox(page)).toHaveValue(examples[2].body);
  await expect(page).toHaveURL(new RegExp(`layer=${layer}&head=${head}`));
  await expect(page).toHaveURL(/[#&]prompt=%3D(&|$)/); // none, as the run had
  await expect(readout(page)).toContainText("→"); // the strongest cell is pinned
  await page.goBack();
  await expect(texts).toHaveCount(12);
  await page.getByLabel("Typical by").selectOption("repeated_share");
  await expect(page.getByRole("img").filter({ hasText: "Normalised similarity N" })).toBeVisible();
  await page.getByRole("combobox", { name: "Head", exact: true }).selectOption("3");
  await expect(page.getByRole("list", { name: `Typical texts of layer ${layer} head 3` })).toBeVisible();
});

test("Export that is opened early offers the typical texts once they are here", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  const id = await made(request, home, "name=early&examples=2");
  let answer = (): void => {};
  const held = new Promise<void>((done) => (answer = done));
  await page.route("**/examples?*", (route) => held.then(() => route.continue()));
  await open(page, home, `view=corpus&typical=1&layer=1&head=4&run=${id}`);
  await expect(view(page, "Corpus").getByRole("figure").first()).toBeVisible();
  await exportMenu(page).click();
  const item = page.getByRole("button", { name: "SVG of texts" });
  await expect(page.getByRole("button", { name: /^SVG/ })).toBeVisible();
  await expect(item).toHaveCount(0);
  answer();
  await expect(item).toBeVisible();
});

test(
  "a run without typical texts says how to keep them",
  { tag: "@slow" },
  async ({ watched: page, home, request }) => {
    const id = await made(request, home, "name=untypical");
    await open(page, home, `view=corpus&typical=1&run=${id}`);
    const says = page.getByRole("status").filter({ hasText: "Start a run with “Typical texts a head” above 0." });
    await expect(page.getByRole("region", { name: "Runs side by side" }).locator(says)).toBeVisible();
  },
);

for (const [width, colorScheme] of [
  [390, "dark"],
  [1920, "light"],
] as const)
  test(
    `axe finds nothing serious or moderate in typical texts: ${width} px, ${colorScheme}`,
    { tag: "@slow" },
    async ({ watched: page, home, request }) => {
      const id = await made(request, home, "name=accessible&examples=2");
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await open(page, home, `view=corpus&typical=1&layer=1&head=4&run=${id}`);
      await expect(page.getByRole("list", { name: /^Typical texts of/ }).getByRole("listitem")).toHaveCount(2);
      await settled(page);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      expect(await findings(page)).toEqual([]);
    },
  );

test(
  "three runs: a column for each, and figures over the runs",
  { tag: "@slow" },
  async ({ watched: page, home, request, context }) => {
    await withRuns(page, home);
    for (const n of [1, 2]) {
      await begin(page, `later-${n}.txt`, "text/plain", Buffer.from(RULES.slice(n).join("\n")));
      await expect(runCard(page, `later-${n}.txt`)).toContainText("Done");
    }
    const { corpora } = await (await request.get(`${home}corpora`)).json();
    const names = ["stories.jsonl", "later-1.txt", "later-2.txt"]; // as they were started
    const ids = names.map((name) => corpora.find((run: { name: string }) => run.name === name).id);
    const reports = await Promise.all(ids.map(async (id) => (await request.get(`${home}corpora/${id}/report`)).json()));
    await open(page, home, `view=corpus&run=${ids[2]}&run2=${ids[0]}&figure=mean_distance`);
    await reload(page);
    await page.getByText("More runs").click();
    await page.getByRole("checkbox", { name: "later-1.txt" }).check();
    await expect(page).toHaveURL(new RegExp(`runs=${ids[1]}`));
    await expect(page.locator(".run-legend strong")).toHaveText(names);
    const figure = page.getByRole("region", { name: "Mean distance of high pairs", exact: true });
    await expect(figure.getByRole("img")).toHaveCount(3); // by layer, over the runs, heads
    await figure.getByText("Numbers of layers").click();
    await expect(figure.getByRole("columnheader")).toHaveText(["Layer", ...names, "Last − first"]);
    const cells = (await figure.getByRole("row").nth(5).getByRole("cell").allTextContents()).map((t) => parseFloat(t.replace("−", "-")));
    const expected = reports.map((r) => r.layer_figures[2][4].mean_distance);
    [...expected, expected[2] - expected[0]].forEach((value, n) => expect(Math.abs(cells[n]! - value)).toBeLessThan(0.0011));
    await figure.getByText("Numbers of heads").click();
    await expect(figure.getByRole("row")).toHaveCount(1 + 12 + 1 + 144);
    const opened = context.waitForEvent("page");
    await page.getByRole("link", { name: "Open the comparison" }).click();
    const comparison = await opened;
    await expect(comparison.getByRole("heading", { level: 1 })).toHaveText("3 runs compared");
    await expect(comparison.locator("#findings thead th")).toHaveText(["Claim", ...names]);
  },
);

test("which head does what, over a run: a map, and a table to sort and to search", { tag: "@slow" }, async ({ watched: page, home }) => {
  await withRuns(page, home);
  await page.getByLabel("First run").selectOption({ label: "stories.jsonl" });
  await page.getByText("Patterns of all heads over the texts of").click();
  const part = page.getByRole("group").filter({ has: page.getByText("Patterns of all heads over the texts of") });
  const rows = part.getByRole("group", { name: "Table" }).getByRole("row");
  await expect(rows).toHaveCount(1 + 144);
  await part.getByRole("button", { name: "Previous", exact: true }).click();
  const strongest = await rows.nth(1).getByRole("rowheader").textContent();
  const [layer, head] = strongest!.split("·");
  await expect(part.getByRole("list", { name: "Heads, strongest first" }).getByRole("button").first()).toHaveText(`Layer ${layer} head ${head}`);
  await expect(part.getByRole("img")).toContainText(/linear, 0\s% to \d+\s%/); // as the cells
  await part.getByLabel("Map of").selectOption("broad");
  await expect(page).toHaveURL(/runcolumn=broad/);
  await expect(part.getByRole("img")).toContainText("Entropy");
  await part.getByLabel("Find heads").fill("zzz");
  await expect(rows).toHaveCount(1);
  await expect(part.getByRole("status")).toHaveText("No head has this place or label.");
  await part.getByLabel("Find heads").fill(strongest!);
  await expect(rows).toHaveCount(2);
  await expect(page).toHaveURL(/runseek=/);
  await reload(page);
  await expect(rows).toHaveCount(2);
  await part.getByRole("button", { name: strongest!, exact: true }).click();
  await expect(page).toHaveURL(new RegExp(`view=head.*layer=${layer}&head=${head}`));
});
