// Two texts of a sentence encoder: their cosine, the tokens' shares of it and the heads behind it, and the prompts.
import type { APIRequestContext } from "@playwright/test";
import { expect, findings, headMap, modelBox, open, ranked, rankedHeads, settled, taskTest as test, view } from "./viewer";

const [FIRST, SECOND] = ["The old bridge was closed.", "Nobody may cross the river."];
const COMPARED = `view=compare&against=text&model=encoder&text=${encodeURIComponent(FIRST)}&text2=${encodeURIComponent(SECOND)}`;

const ask = async (request: APIRequestContext, home: string, body: object) =>
  (await request.post(`${home}analyze`, { data: { model: "encoder", digits: 9, ...body } })).json();
const vectorOf = async (request: APIRequestContext, home: string, text: string, prompt_name: string): Promise<number[]> =>
  (await ask(request, home, { text, prompt_name, outputs: ["embedding"] })).embedding.vector;
const dot = (a: number[], b: number[]): number => a.reduce((sum, v, k) => sum + v * b[k]!, 0);
const cosine = (a: number[], b: number[]): number => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));

test("the cosine is the service's, and the tokens' shares sum to it", async ({ watched: page, home, request }) => {
  const [a, b] = [await vectorOf(request, home, FIRST, "query"), await vectorOf(request, home, SECOND, "query")];
  await open(page, home, COMPARED);
  await settled(page);
  const box = view(page, "Cosine");
  expect(Number((await box.getByRole("definition").first().textContent())!.replace("−", "-"))).toBeCloseTo(cosine(a, b), 2);
  for (const text of [0, 1]) {
    const titles = await box.locator(".cosine-texts > div").nth(text).locator(".token").evaluateAll((all) => all.map((one) => (one as HTMLElement).title));
    const sum = titles.reduce((total, title) => total + Number(title.replace("−", "-")), 0);
    expect(Math.abs(sum - cosine(a, b))).toBeLessThan(0.02); // each number is written with few digits
    expect(Number(titles[1])).toBe(0); // of the prompt, which the mean leaves out
  }
  await expect(box.locator(".flow").first()).toContainText("find this : ");
  expect(await findings(page)).toEqual([]);
});

test("heads are ranked by their effect on the cosine", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  const vector = await vectorOf(request, home, SECOND, "query");
  const { effects } = await ask(request, home, { text: FIRST, layers: "all", outputs: ["effects"], target: { cosine: vector } });
  const best = ranked(effects as { target_change: number }[][], (one) => -one.target_change)[0]!;
  await open(page, home, COMPARED);
  await view(page, "Cosine").getByText("Which heads bring it about?").click();
  await expect(page).toHaveURL(/causes=1/);
  await settled(page);
  const map = headMap(view(page, "Cosine"));
  await expect(map.getByRole("cell")).toHaveCount(144);
  await expect(rankedHeads(map).getByRole("button").first()).toHaveText(`Layer ${best.layer} head ${best.head}`);
});

test("each text has a prompt of its own, and changing it changes the cosine", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  const a = await vectorOf(request, home, FIRST, "");
  const b = await vectorOf(request, home, SECOND, "passage");
  await open(page, home, COMPARED);
  await settled(page);
  await expect(page.getByLabel("Prompt before the text")).toHaveValue("=query");
  await page.getByLabel("Prompt before the text").selectOption("None");
  await page.getByLabel("Prompt before the second text").selectOption("=passage");
  await expect(page).toHaveURL(/prompt=%3D&/);
  await settled(page);
  const shown = view(page, "Cosine").getByRole("definition").first();
  expect(Number((await shown.textContent())!.replace("−", "-"))).toBeCloseTo(cosine(a, b), 2);
  await modelBox(page).selectOption("moods");
  await settled(page);
  await expect(page.getByLabel("Prompt before the text")).toHaveCount(0);
});
