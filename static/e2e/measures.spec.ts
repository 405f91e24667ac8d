// Choice of space and of weighted maps: what Head and Text show is what the service answers.
import type { APIRequestContext } from "@playwright/test";
import { colours, displayOptions, exactFigures, expect, exportMenu, figure, figures, menuNote, more, open, pairRows, readout, reload, settled, test, thumb, view } from "./viewer";

const TEXT = "The cat sat on the mat. The cat ran.";
const QUERY = `layer=3&head=2&text=${encodeURIComponent(TEXT)}`;
const ask = async (request: APIRequestContext, home: string, body: object) =>
  (await request.post(`${home}analyze`, { data: { text: TEXT, layers: [3], heads: [2], digits: 9, ...body } })).json();

test("head: maps weighed by norms and similarities of the residual space, in readout, picture and request", async ({ watched: page, home, request, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, home, `view=head&pin=2.9&${QUERY}`);
  await expect(exactFigures(page)).toBeVisible();
  const plain = await figures(page).textContent();
  await more(page);
  await page.getByLabel("Weight by norms").check();
  await page.getByLabel("Similarity in").selectOption("residual");
  await expect(page).toHaveURL(/space=residual&weigh=1/);
  await expect(page.getByRole("heading", { name: "Attention weighted by norms" })).toBeVisible();
  await expect(page.getByText("O·G·O′, as written into the hidden state")).toBeVisible();
  const answer = await ask(request, home, { outputs: ["weighted_norms", "similarities", "summary"], similarity_space: "residual" });
  await expect(readout(page)).toContainText("A‖f‖");
  const read = async (name: string): Promise<number> =>
    Number(new RegExp(`${name} (\\S+)`).exec((await readout(page).textContent())!.replaceAll("−", "-"))![1]);
  const near = (name: string, is: number): Promise<void> =>
    expect.poll(async () => Math.abs((await read(name)) - is)).toBeLessThan(0.006 * Math.abs(is));
  await near("A‖f‖", answer.weighted_norms[0][0][2][9]);
  await near(" S", answer.similarities[0][0][2][9]);
  const fact = (name: string) => figure(page, name).getByRole("definition");
  await expect(fact("High pairs")).toHaveText(String(answer.summary[0][0].high_pairs));
  await expect(fact("Mean distance")).toContainText(String(answer.summary[0][0].mean_distance).slice(0, 3));
  expect(await figures(page).textContent()).not.toBe(plain);
  await exportMenu(page).click();
  await page.getByRole("button", { name: /^curl/ }).click();
  await expect(menuNote(page)).toContainText("Copied");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toContain('"similarity_space":"residual"');
  expect(copied).toContain('"weighted_norms"');
  await page.keyboard.press("Escape");
  await reload(page);
  await expect(page.getByRole("heading", { name: "Attention weighted by norms" })).toBeVisible();
});

test("head: centred similarities in readout, figures, address and requests", async ({ watched: page, home, request }) => {
  await open(page, home, `view=head&pin=2.9&${QUERY}`);
  await expect(exactFigures(page)).toBeVisible();
  const sent: string[] = [];
  page.on("request", (r) => sent.push(r.postData() ?? ""));
  await displayOptions(page);
  await page.getByLabel("Centre outputs").check();
  await expect(page).toHaveURL(/center=1/);
  await expect(page.getByText("O·O′ of centred outputs")).toBeVisible();
  const answer = await ask(request, home, { outputs: ["similarities", "summary"], center: "text" });
  const expected = answer.similarities[0][0][2][9];
  await expect
    .poll(async () => {
      const shown = / S (\S+)/.exec((await readout(page).textContent())!.replaceAll("−", "-"));
      return Math.abs(Number(shown?.[1]) - expected);
    })
    .toBeLessThan(0.006 * Math.abs(expected));
  const fact = (name: string) => figure(page, name).getByRole("definition");
  await expect(fact("High pairs")).toHaveText(String(answer.summary[0][0].high_pairs));
  await expect(fact("Mean distance")).toContainText(String(answer.summary[0][0].mean_distance).slice(0, 3));
  const centred = sent.filter((body) => body.includes('"center":"text"'));
  expect(centred.filter((body) => body.includes('"layers":"all"'))).toHaveLength(1); // for thumbnails and figures
  expect(centred.filter((body) => body.includes('"layers":[3]'))).toHaveLength(1);
  await reload(page);
  await displayOptions(page);
  await expect(page.getByLabel("Centre outputs")).toBeChecked();
});

test("head: says how many high pairs are those of the longest outputs", async ({ watched: page, home, request }) => {
  const ofHead = `view=head&layer=1&head=4&text=${encodeURIComponent(TEXT)}`;
  const sentence = page.getByText("of the high pairs are those of the longest outputs.");
  const shareAt = async (body: object): Promise<string> => {
    const { summary } = await ask(request, home, { layers: [1], heads: [4], outputs: ["summary"], ...body });
    const share = summary[0][0].longest_overlap;
    return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0% of`;
  };
  const [plain, strict, centred] = await Promise.all([{}, { threshold: 0.6 }, { center: "text" }].map(shareAt));
  expect(new Set([plain, strict, centred]).size).toBe(3);
  await open(page, home, ofHead);
  await expect(sentence).toContainText(plain);
  await page.getByRole("button", { name: "What is: Pairs of the longest outputs?" }).click();
  await expect(page.locator(".explain-sheet").getByText("largest product of the lengths")).toBeVisible();
  await open(page, home, `${ofHead}&tau=0.6`);
  await expect(sentence).toContainText(strict);
  await open(page, home, `${ofHead}&center=1`);
  await expect(sentence).toContainText(centred);
  await open(page, home, `${ofHead}&space=residual`);
  await expect(exactFigures(page)).toBeVisible();
  await expect(sentence).toBeHidden();
  await open(page, home, "view=head&layer=1&head=4&text=");
  await expect(figure(page, "High pairs").getByRole("definition")).toHaveText("0");
  await expect(sentence).toBeHidden();
});

test("text: the lists follow the weights and the space; pairs keep the plain ones", async ({ watched: page, home, request }) => {
  await open(page, home, `view=text&sel=2&weigh=1&space=residual&relation=to&${QUERY}`);
  const answer = await ask(request, home, { outputs: ["weighted_norms", "similarities"], similarity_space: "residual", normalize: "max" });
  const best = (row: number[]): string[] =>
    row
      .map((value, t) => ({ t, value }))
      .filter(({ t }) => t !== 2)
      .sort((a, b) => b.value - a.value)
      .slice(0, 4)
      .map(({ t }) => String(t));
  const listed = (n: number) => page.locator(".lists .card").nth(n).locator("li small");
  await expect.poll(async () => (await listed(0).allTextContents()).slice(0, 4)).toEqual(best(answer.weighted_norms[0][0][2]));
  await expect.poll(async () => (await listed(2).allTextContents()).slice(0, 4)).toEqual(best(answer.similarities[0][0][2]));
  await expect(page.getByRole("img", { name: /^Attends to, weighted by norms/ })).toBeVisible();
  await expect(page.locator(".arc.attention").first()).toBeAttached();
  await page.getByRole("radio", { name: "Similar to" }).check();
  await expect(page.getByRole("img", { name: /^Similar to, residual space/ })).toBeVisible();
  const sent: string[] = [];
  page.on("request", (r) => sent.push(r.postData() ?? ""));
  await page.keyboard.press("4");
  await expect(view(page, "Pairs")).toBeVisible();
  await expect(pairRows(page).first()).toBeVisible();
  expect(sent.filter((body) => body.includes("residual"))).toEqual([]);
});

test("overview, pairs and compare follow the centring: figures, thumbnails and differences", async ({ watched: page, home, request }) => {
  const all = await ask(request, home, { layers: "all", heads: "all", outputs: ["summary", "similarities"], center: "text" });
  await open(page, home, `view=overview&show=similarity&tint=high_pairs&least=0&text=${encodeURIComponent(TEXT)}`);
  const small = thumb(page, 3, 2);
  const picture = () => small.locator("canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
  await expect.poll(() => colours(page, ".thumb[data-head='3.2'] canvas")).toBeGreaterThan(5);
  await settled(page);
  const plain = await picture();
  await displayOptions(page);
  await page.getByLabel("Centre outputs").focus();
  await page.keyboard.press("Space");
  await expect(page).toHaveURL(/center=1/);
  await expect(page.getByRole("img", { name: /^Centred similarity/ }).first()).toBeVisible();
  const high = all.summary[3][2].high_pairs as number;
  await expect(small).toContainText(high.toLocaleString("en"));
  await expect.poll(picture).not.toBe(plain);
  await open(page, home, `view=pairs&center=1&${QUERY}`);
  await expect(page.getByRole("region", { name: "Pairs", exact: true })).toContainText(`${high.toLocaleString("en")} of ${high.toLocaleString("en")} high pairs`);
  await expect(page.getByRole("region", { name: "Pairs", exact: true })).toContainText("centred N");
  await open(page, home, `view=compare&center=1&what=similarity&layer2=5&head2=1&${QUERY}`);
  const normalised = (map: number[][]): number[] => {
    const off = map.map((row, i) => row.map((v, j) => (i === j ? 0 : v)));
    const top = Math.max(...map.flatMap((row, i) => row.filter((_, j) => i !== j)));
    return off.flat().map((v) => v / top);
  };
  const [a, b] = [normalised(all.similarities[3][2]), normalised(all.similarities[5][1])];
  const mean = a.reduce((sum, v, k) => sum + Math.abs(v - b[k]!), 0) / a.length;
  const fact = figure(page, "Mean |difference|").getByRole("definition");
  await expect.poll(async () => Math.abs(Number(await fact.textContent()) - mean)).toBeLessThan(0.006 * mean);
  await displayOptions(page);
  await expect(page.getByLabel("Centre outputs")).toBeChecked();
});
