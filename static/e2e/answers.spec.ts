// Questions about heads: which has a pattern, which connects two tokens, which changed.
import type { Page } from "@playwright/test";
import { SAMPLE } from "../src/app/examples";
import { bodyRows, complete, displayOptions, expect, figure, figures, findHeads, findings, firstText, headMap, LONG, looking, open, type Place, ranked, rankedHeads, readout, reload, saved, test, thumbs, tokens } from "./viewer";

const names = (page: Page): Promise<string[]> => thumbs(page).locator("b").allTextContents();

test("which head looks one word back: by label, sort, filter and search", async ({ watched: page, home, request }) => {
  const [back, ahead] = [await looking(request, home, "previous"), await looking(request, home, "next")];
  await open(page, home);
  const all = thumbs(page);
  await expect(all.nth(12 * back[0]!.layer + back[0]!.head)).toContainText("previous");
  await expect(all.nth(12 * ahead[0]!.layer + ahead[0]!.head)).not.toContainText("previous");
  await findHeads(page);
  await page.getByLabel("Sort by").selectOption("previous");
  await expect.poll(async () => (await names(page)).slice(0, 3)).toEqual(back.slice(0, 3).map(({ name }) => name));
  await expect(all.first()).toContainText(`${(100 * back[0]!.value).toFixed(0)}`.slice(0, 1));
  await page.getByLabel("Sort by").selectOption("none");
  const strong = back.filter(({ value }) => value > 0.51).map(({ name }) => name);
  await page.getByRole("combobox", { name: "Pattern", exact: true }).selectOption("previous");
  await expect(all).not.toHaveCount(144);
  const filtered = await names(page);
  for (const name of strong) expect(filtered).toContain(name);
  await expect(page).toHaveURL(/only=previous/);
  await page.getByRole("combobox", { name: "Pattern", exact: true }).selectOption("all");
  await page.getByLabel("Find heads").fill("token before");
  await expect.poll(() => names(page)).toEqual(filtered);
  await page.getByLabel("Find heads").fill("7·5");
  await expect.poll(() => names(page)).toEqual(["7·5"]);
  await page.getByLabel("Find heads").fill("zzz");
  await expect(page.getByText("No head has this pattern")).toBeVisible();
});

test("a head says its pattern; the table sorts by it", async ({ watched: page, home, request }) => {
  const [{ layer, head, value }] = (await looking(request, home, "previous")) as [Place];
  await open(page, home, `view=head&layer=${layer}&head=${head}`);
  await expect(figure(page, "Pattern")).toContainText("previous");
  const pattern = figure(page, "In this text");
  await expect(pattern).toContainText(/previous \(.* \d+\s%, .* \d+\s%\)/);
  const all = (await pattern.getAttribute("title"))!;
  const shown = /\bprevious (\d+)\s%/.exec(all)![1];
  expect(Math.abs(Number(shown) - 100 * value)).toBeLessThan(1.5);
  await open(page, home);
  await page.getByText("All figures as a table").click();
  const heads = page.getByRole("table").getByRole("columnheader");
  await expect(heads).toHaveCount(20);
  await heads.nth(1).getByRole("button").click();
  await expect(heads.nth(1)).toHaveAttribute("aria-sort", "ascending");
  const column = (await page.locator(".alternative tbody td:nth-child(2)").allTextContents()).filter((t) => t !== "–" && t !== "mixed");
  expect(column).toEqual([...column].sort());
  expect(column).toContain("previous");
});

test("labels are the model's, not the text's; a filter has the clearest first", async ({ watched: page, home, request }) => {
  const sample = await request.post(`${home}analyze`, { data: { text: SAMPLE, layers: "all", outputs: ["profiles"] } });
  const { profiles } = (await sample.json()) as { profiles: { previous: number }[][] };
  const back = ranked(profiles, ({ previous }) => previous).filter(({ value }) => value > 0.51);
  const requests: string[] = [];
  page.on("request", (one) => one.postData()?.includes("The ferry left") && requests.push(one.url()));
  for (const text of ["A dog.", "One two three, one two three, one two three."]) {
    await open(page, home, `only=previous&text=${encodeURIComponent(text)}`);
    await expect.poll(async () => (await names(page)).slice(0, back.length)).toEqual(back.map(({ name }) => name));
  }
  expect(requests).toHaveLength(1); // kept in the browser with the model's checksum
  const { layer, head, name } = back[0]!;
  await open(page, home, `view=head&layer=${layer}&head=${head}&text=dog`);
  await expect(figure(page, "Pattern"), name).toContainText("previous");
  await expect(figure(page, "In this text")).not.toContainText(/text\s*previous/);
});

test("the first page requests the labels' sample once, though more maps are made while it is on the way", async ({ watched: page, home }) => {
  let requests = 0;
  page.on("request", (one) => one.postData()?.includes("The ferry left") && requests++);
  await open(page, home);
  await complete(page);
  expect(requests).toBe(1);
});

test("all heads are ranked between two tokens, either way and by similarity", async ({ watched: page, home, request }) => {
  const text = "The cat sat on the mat. The dog saw the cat.";
  const query = `text=${encodeURIComponent(text)}`;
  const { attentions, similarities } = await (
    await request.post(`${home}analyze`, {
      data: { text, layers: "all", outputs: ["attentions", "similarities"], normalize: "max" },
    })
  ).json();
  // The first of the list, or of those that share its place.
  const best = (maps: number[][][][], i: number, j: number): RegExp => {
    const all = ranked(maps, (map) => map[i]![j]!);
    const first = all.filter(({ value }) => value === all[0]!.value);
    return new RegExp(`^(${first.map(({ layer, head }) => `Layer ${layer} head ${head}`).join("|")})$`);
  };
  const listed = async (): Promise<string> => (await rankedHeads(page).getByRole("button").first().textContent())!;
  await open(page, home, `view=text&layer=1&head=4&${query}`);
  await tokens(page).nth(2).click();
  await tokens(page).nth(12).click({ modifiers: ["Shift"] });
  await page.getByText("Rank all heads between “cat” 2 and “cat” 12").click();
  await expect.poll(listed).toMatch(best(attentions, 2, 12));
  await page.getByRole("radio", { name: "Second attends to first" }).check();
  await expect.poll(listed).toMatch(best(attentions, 12, 2));
  await page.locator(".disclosure").getByRole("radio", { name: "Similarity" }).check();
  await expect.poll(listed).toMatch(best(similarities, 2, 12));
  await expect(headMap(page).getByRole("cell")).toHaveCount(144);
  await open(page, home, `view=head&layer=1&head=4&pin=2.12&ties=1&${query}`);
  await expect.poll(listed).toMatch(best(attentions, 2, 12));
  await headMap(page).getByRole("cell").nth(5 * 12 + 3).click();
  await expect(page).toHaveURL(/layer=5&head=3/);
  await expect(readout(page)).toContainText("cat 2 → cat 12");
});

test("what changed between two texts: changed words included, second segments kept", async ({
  watched: page,
  home,
  request,
}) => {
  const first = { text: "The black cat sat on the mat.", text_pair: "It slept." };
  const second = { text: "The white cat sat on the mat.", text_pair: "It slept." };
  await open(page, home, `view=compare&against=text&layer=1&head=4&text=${encodeURIComponent(first.text)}&pair=It+slept.`);
  await page.getByLabel("Second text", { exact: true }).fill(second.text);
  await expect(page.getByLabel("Second segment of the second text")).toHaveValue("It slept.");
  await page.getByRole("button", { name: "Compare", exact: true }).last().click();
  await expect(figures(page)).toContainText(/Tokens compared\d+, \d+ of them changed/);
  await expect(page).toHaveURL(/pair2=It\+slept/);
  await page.getByText("Rank all heads by their change").click();
  await expect(headMap(page).getByRole("cell")).toHaveCount(144);
  await expect.poll(() => bodyRows(headMap(page)).count()).toBe(12);
  const ask = async (data: object): Promise<number[][][][]> =>
    (
      await (
        await request.post(`${home}analyze`, { data: { ...data, layers: "all", outputs: ["similarities"], digits: 9 } })
      ).json()
    ).similarities;
  const [a, b] = [await ask(first), await ask(second)];
  if (a[0]![0]!.length !== b[0]![0]!.length) return; // the vocabulary cuts the two words differently
  const change = (l: number, h: number): number => {
    let moved = 0,
      whole = 0;
    a[l]![h]!.forEach((row, i) =>
      row.forEach((v, j) => {
        if (i !== j) ((moved += (v - b[l]![h]![i]![j]!) ** 2), (whole += v * v));
      }),
    );
    return Math.sqrt(moved / whole);
  };
  const best = a
    .flatMap((layer, l) => layer.map((_, h) => ({ name: `Layer ${l} head ${h}`, value: change(l, h) })))
    .sort((p, q) => q.value - p.value);
  await expect(rankedHeads(page).getByRole("button").first()).toHaveText(best[0]!.name);
  const shown = Number(await page.locator(".ranked b").first().textContent());
  expect(Math.abs(shown - best[0]!.value)).toBeLessThan(0.02 * best[0]!.value);
});

test("what changes when a head is switched off: nothing before it", async ({ watched: page, home }) => {
  await open(page, home, "view=compare&against=off&layer=9&head=3&layer2=5&head2=2&changes=1&text=The+cat+sat.+It+ran.");
  await expect(page.getByRole("figure").nth(1)).toContainText("head 2 of layer 5 switched off");
  await expect(bodyRows(headMap(page))).toHaveCount(12);
  const rows = await bodyRows(headMap(page)).evaluateAll((all) =>
    all.map((row) => [...row.querySelectorAll("td")].map((td) => td.textContent)),
  );
  expect(rows.slice(0, 5).flat().every((v) => Number(v) < 1e-3)).toBe(true);
  expect(rows.slice(6).flat().some((v) => Number(v) > 0.001)).toBe(true);
  await page.getByRole("radio", { name: "Attention", exact: true }).check();
  await expect(headMap(page)).toContainText("Change of attention");
});

test("two models: the same model changes nothing", async ({ watched: page, home }) => {
  await open(page, home, "view=compare&against=model&model2=twin&layer=1&head=4&layer2=1&head2=4&changes=1&text=A+dog+ran.");
  await expect(bodyRows(headMap(page))).toHaveCount(12);
  const cells = await headMap(page).getByRole("cell").allTextContents();
  expect(cells.every((v) => Number(v) < 1e-3)).toBe(true);
});

test("attention as lines over the text, and a word when only the strongest are drawn", async ({ watched: page, home, request }) => {
  const [{ layer, head }] = (await looking(request, home, "previous")) as [Place];
  await open(page, home, `view=text&layer=${layer}&head=${head}&beside=${layer}.${head}`);
  await expect(page.locator(".arc.attention").first()).toBeAttached();
  await tokens(page).nth(20).click();
  await expect.poll(() => page.locator(".arc.attention").count()).toBeLessThan(4); // a head that looks one back
  await page.keyboard.press("Escape");
  const { similarities } = await firstText(request, home, { outputs: ["similarities"], normalize: "max", digits: 4 });
  const [many] = ranked(similarities as number[][][][], (map) => map.flat().filter((n) => n > 0.06).length) as [Place];
  await open(page, home, `view=text&layer=${many.layer}&head=${many.head}&beside=${many.layer}.${many.head}`);
  await page.getByRole("radio", { name: "Similar to" }).check();
  await displayOptions(page);
  await page.getByRole("slider", { name: "Similarity τ" }).fill("0.05");
  await expect(page.getByText(/Drawn: the 150 strongest of [\d,]+ pairs/)).toBeVisible();
  await expect(page.locator(".arc")).toHaveCount(150);
  await page.getByRole("slider", { name: "Similarity τ" }).fill("0.98");
  await expect(page.getByText("Drawn: the")).toBeHidden();
});

test("a head without a line says so, by name", async ({ watched: page, home, request }) => {
  const { attentions } = await firstText(request, home, { outputs: ["attentions"], digits: 3 });
  const even = ranked(attentions as number[][][][], (map) => -Math.max(...map[20]!))[0]!;
  const [{ layer, head }] = (await looking(request, home, "previous")) as [Place];
  await open(page, home, `view=text&layer=${layer}&head=${head}&beside=${even.layer}.${even.head}`);
  await expect(page.locator(".arc").first()).toBeAttached();
  await tokens(page).nth(20).click();
  await expect(page.getByText(`No lines of ${even.name}: no attention here reaches 0.1.`)).toBeVisible();
});

test("lines of several heads at once: kept, coloured apart, in the address and in what is saved", { tag: "@slow" }, async ({
  watched: page,
  home,
  request,
}) => {
  const back = (await looking(request, home, "previous"))[0]!;
  const ahead = (await looking(request, home, "next")).find(({ layer }) => layer === back.layer)!;
  await open(page, home, `${LONG}&view=text&layer=${back.layer}&head=${back.head}&beside=${back.layer}.${back.head}`);
  const lanes = (): Promise<(string | null)[]> =>
    page.locator(".arc").evaluateAll((all) => [...new Set(all.map((arc) => arc.getAttribute("data-lane")))].sort());
  await expect.poll(async () => (await lanes()).length).toBe(1);
  await page.getByRole("button", { name: `Head ${ahead.head}`, exact: true }).click();
  await expect(page.getByRole("checkbox", { name: back.name, exact: true })).toBeChecked();
  await expect.poll(async () => (await lanes()).length).toBe(2);
  const both = await lanes();
  await expect(page).toHaveURL(new RegExp(`beside=${back.layer}\\.${back.head}`));
  await expect(page.getByText(/Drawn: the 150 strongest of [\d,]+ attentions of at least 0.1, shared evenly among 2 heads/)).toBeVisible();
  const strokes = (): Promise<string[]> =>
    page
      .locator(".arc")
      .evaluateAll((all) => [...new Set(all.map((arc) => [arc.getAttribute("data-lane"), getComputedStyle(arc).stroke].join(" ")))]);
  const last = { colours: [""] };
  // Lines that are being replaced have no colour.
  await expect.poll(async () => (last.colours = await strokes()).filter((c) => c.includes("rgb")).length).toBe(2);
  const colours = last.colours.filter((c) => c.includes("rgb"));
  // One looks back, the other ahead: from a token a line of each.
  await tokens(page).nth(20).click();
  await expect.poll(lanes).toEqual(both);
  await expect.poll(() => page.locator(".arc").count()).toBeLessThan(8);
  await reload(page);
  await expect.poll(lanes).toEqual(both);
  const picture = (await saved(page, "SVG")).bytes.toString();
  const hex = (colour: string): string => `#${colour.match(/\d+/g)!.map((v) => Number(v).toString(16).padStart(2, "0")).join("")}`;
  for (const colour of colours.map((c) => c.slice(2))) expect(picture).toContain(`stroke="${hex(colour)}"`);
  for (const { name } of [back, ahead]) expect(picture).toContain(`>${name}<`);
  for (const head of [0, 3]) expect(picture).not.toContain(`>${back.layer}·${head}<`); // those that are not drawn
  expect((await saved(page, "CSV")).bytes.toString()).toContain(`,attends_to,attended_by,similar_to,attends_to_l${back.layer}_h${back.head}`);
  await page.keyboard.press("Escape");
  await page.getByRole("checkbox", { name: back.name, exact: true }).uncheck();
  await expect.poll(async () => (await lanes()).length).toBe(1);
  await expect(page).toHaveURL(new RegExp(`beside=${ahead.layer}\\.${ahead.head}(&|$)`));
});

test("Text opens with lines of four heads, and a tick for each head of the layer", async ({ watched: page, home }) => {
  await open(page, home, "view=text&layer=1&head=10");
  const ticks = page.getByRole("toolbar", { name: "Heads whose attention is drawn" }).getByRole("checkbox");
  await expect(ticks).toHaveCount(12);
  await expect(ticks.and(page.locator(":checked"))).toHaveCount(4);
  await expect(page.getByRole("checkbox", { name: "1·10" })).toBeDisabled(); // the head on screen
  const colours = (): Promise<number> =>
    page.locator(".arc").evaluateAll((all) => new Set(all.map((arc) => getComputedStyle(arc).stroke)).size);
  await expect.poll(colours).toBeGreaterThan(2);
  for (const head of [0, 1, 11]) await page.getByRole("checkbox", { name: `1·${head}`, exact: true }).uncheck();
  await expect.poll(colours).toBe(1);
  await page.getByRole("checkbox", { name: "1·7" }).focus();
  await page.keyboard.press("Space");
  await expect.poll(colours).toBe(2);
  for (const head of [0, 1, 2, 3, 4, 5]) await page.getByRole("checkbox", { name: `1·${head}`, exact: true }).check();
  await expect(page.getByRole("checkbox", { name: "1·8" })).toBeDisabled(); // at most eight
  expect(await findings(page)).toEqual([]);
});
