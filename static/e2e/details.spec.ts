// Single things that a user meets: choosing tokens, comparing, ranking, dropping a file.
import { TERMS } from "../src/ui/terms";
import { bodyRows, chosenTokens, displayOptions, drawn, expect, findHeads, modelBox, open, pairRows, ranked, rankedHeads, reload, settled, test, textBox, thumbs, tokens, view } from "./viewer";

const TEXT = "The cat sat on the mat. The dog saw the cat.";
const query = `text=${encodeURIComponent(TEXT)}`;

test("text: Shift and click selects no text of the page; a switch chooses several without a keyboard", async ({ watched: page, home }) => {
  await open(page, home, `view=text&layer=1&head=4&${query}`);
  await tokens(page).nth(2).click();
  await tokens(page).nth(9).click({ modifiers: ["Shift"] });
  await expect(chosenTokens(page)).toHaveCount(2);
  expect(await page.evaluate(() => getSelection()!.toString())).toBe("");
  await page.keyboard.press("Escape");
  await tokens(page).nth(2).click();
  await tokens(page).nth(4).click();
  await expect(chosenTokens(page)).toHaveCount(1);
  await page.getByLabel("Choose several").check();
  await tokens(page).nth(9).click();
  await expect(chosenTokens(page)).toHaveCount(2);
});

test("compare: another model is another one", async ({ watched: page, home }) => {
  await open(page, home, `view=compare&layer=1&head=4&${query}`);
  await page.getByRole("radio", { name: "Another model" }).check();
  await expect(page.getByLabel("Second model")).toHaveValue("twin");
  await expect(page.getByText("Rank all heads by their change")).toBeVisible();
  await modelBox(page).selectOption("twin");
  await expect(page.getByLabel("Second model")).toHaveValue("mini");
});

test("compare: a symmetric difference is listed once", async ({ watched: page, home }) => {
  await open(page, home, `view=compare&layer=1&head=4&layer2=2&head2=3&${query}`);
  const pairs = async (): Promise<string[]> =>
    (await bodyRows(page.getByRole("table", { name: /^Largest differences/ })).evaluateAll((all) =>
      all.map((row) => [...row.querySelectorAll("td")].slice(0, 2).map((td) => td.textContent).sort().join(" | ")),
    ));
  await expect(bodyRows(page.getByRole("table", { name: /^Largest differences/ }))).toHaveCount(8);
  expect(new Set(await pairs()).size).toBe(8);
  await page.getByRole("radio", { name: "Attention", exact: true }).check();
  await expect(page.getByRole("table", { name: /^Largest differences/ }).getByRole("rowgroup").first()).toContainText("Row");
});

test("a file dropped anywhere leaves the page where it is", async ({ watched: page, home }) => {
  for (const fragment of [`view=text&${query}`, "view=corpus"]) {
    await open(page, home, fragment);
    if (fragment === "view=corpus") await expect(page.getByRole("form", { name: "New run" })).toBeVisible(); // the view is loaded
    await drawn(page); // and takes files from then on
    const kept = await page.evaluate(() =>
      ["dragover", "drop"].map((kind) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File(["one\ntwo"], "texts.txt"));
        return !document.body.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
      }),
    );
    expect(kept).toEqual([true, true]);
  }
  await expect(page.getByRole("form", { name: "New run" })).toContainText("texts.txt");
});

test("heads are ranked between two tokens by exact attention, with a mark for chance", async ({ watched: page, home, request }) => {
  const { attentions } = await (
    await request.post(`${home}analyze`, { data: { text: TEXT, layers: "all", outputs: ["attentions"], digits: 9 } })
  ).json();
  const all = ranked(attentions as number[][][][], (map) => map[5]![11]!);
  await open(page, home, `view=head&layer=1&head=4&pin=5.11&ties=1&${query}`);
  const listed = rankedHeads(page).getByRole("listitem");
  await expect(listed).toHaveCount(10);
  const names = (await listed.getByRole("button").allTextContents()).map((name) => /(\d+) head (\d+)/.exec(name)!.slice(1).join("·"));
  const value = new Map(all.map((one) => [one.name, one.value]));
  names.forEach((name, n) => expect(Math.abs(value.get(name)! - all[n]!.value)).toBeLessThan(1e-3 * all[0]!.value));
  const chance = 1 / attentions[0][0].length;
  const above = all.filter((one) => one.value > chance);
  if (above.every((one) => one.value > 1.001 * chance))
    await expect(page.locator(".chance")).toContainText(`${above.length} of 144 heads lie above chance`);
});

test("heads like one: the menu names the order", async ({ watched: page, home }) => {
  await open(page, home, `seek=like+7.5&${query}`);
  await expect(page.getByLabel("Sort by").locator("option:checked")).toHaveText("distance to 7·5");
  await page.getByLabel("Sort by").selectOption("none");
  await expect(page.getByLabel("Find heads")).toHaveValue("");
});

test("a model without predictions offers no effects on them", async ({ watched: page, home }) => {
  await page.route("**/models", async (route) => {
    const response = await route.fetch();
    const body = (await response.json()) as { models: object[] };
    await route.fulfill({ response, json: { models: body.models.map((model) => ({ ...model, mlm: false })) } });
  });
  await open(page, home, `view=experiment&${query}`);
  await settled(page);
  await expect(view(page, "Experiment")).toContainText("no head for tokens");
  await expect(page.getByLabel("Heads coloured by").getByRole("option")).toHaveText([
    "Change of similarity",
    "Change of attention",
    "Effect on states",
    "Effect on similarity",
  ]);
});

test("typed text says that it is not analysed, and outlasts a reload", async ({ watched: page, home }) => {
  await open(page, home, query);
  await textBox(page).fill("A dog ran.");
  await expect(page.getByText("Not analysed yet")).toBeVisible();
  await page.reload();
  await expect(textBox(page)).toHaveValue("A dog ran.");
  await expect(page.getByText("Not analysed yet")).toBeVisible();
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(page.getByText("Not analysed yet")).toBeHidden();
});

test("sorting and searching are steps that Ctrl+Z and Back undo", async ({ watched: page, home }) => {
  await open(page, home, query);
  await expect(thumbs(page)).toHaveCount(144);
  await findHeads(page);
  await page.getByLabel("Sort by").selectOption("high_pairs");
  await page.getByLabel("Find heads").pressSequentially("7·5");
  await expect(thumbs(page)).toHaveCount(1);
  await page.getByRole("link", { name: "headscope", exact: true }).focus();
  await page.keyboard.press("Control+z");
  await expect(thumbs(page)).toHaveCount(144);
  await expect(page.getByLabel("Sort by")).toHaveValue("high_pairs");
  await page.goBack();
  await expect(page.getByLabel("Sort by")).toHaveValue("none");
});

test("links name text, model and checksum, and say when the weights differ", async ({ watched: page, home }) => {
  await open(page, home);
  await expect(page).toHaveURL(/text=The\+town\+had.*model=mini.*sha=[0-9a-f]{12}/);
  await open(page, home, `${query}&model=mini&sha=0123456789ab`);
  await reload(page);
  await expect(page.getByText("The link was made with other weights of mini (checksum 0123456789ab")).toBeVisible();
});

test("a control explains itself by keyboard and click, and leads to the glossary", async ({ watched: page, home }) => {
  await open(page, home, query);
  await displayOptions(page);
  const what = page.getByRole("button", { name: "What is: Similarity threshold τ," });
  await what.focus();
  await page.keyboard.press("Enter");
  await expect(page.locator(".explain-sheet", { hasText: "A pair of tokens is high if its N reaches τ." })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.locator(".explain-sheet:popover-open")).toHaveCount(0);
  await page.getByRole("button", { name: "Pattern" }).click();
  await page.getByRole("button", { name: "All terms" }).click();
  const glossary = page.getByRole("dialog", { name: "Glossary" });
  await expect(glossary).toBeVisible();
  await expect(glossary.getByRole("term")).toHaveCount(TERMS.length);
  await page.keyboard.press("Escape");
  await expect(glossary).toBeHidden();
});

test("the first frame of the list of pairs fills its window", async ({ watched: page, home }) => {
  await page.addInitScript(() => {
    new MutationObserver(() => {
      const rows = document.querySelectorAll("table.pairs tbody tr:not(.space)").length;
      if (rows) document.documentElement.dataset.first ??= String(rows);
    }).observe(document, { childList: true, subtree: true });
  });
  await open(page, home, "view=pairs&layer=0&head=6&tau=0.1");
  await expect(pairRows(page).first()).toBeVisible();
  const [first, visible] = await page.getByRole("region", { name: /^Pairs;/ }).evaluate((scroller) =>
    [Number(document.documentElement.dataset.first), scroller.clientHeight / 28]);
  expect(first).toBeGreaterThanOrEqual(Math.floor(visible!));
});
