// Tests for every view: the address, the keyboard, errors, long texts, accessibility, appearance.
import { analysed, chosenThumb, chosenTokens, colours, displayOptions, drawn, exactFigures, expect, figures, findings, goTo, limit, LONG, open, pairCount, pairRows, readout, reload, settled, test, textBox, textOptions, thumbs, tokens, view } from "./viewer";

const VIEWS = ["overview", "head", "text", "pairs", "compare", "corpus", "experiment", "trace"] as const;

test("the address restores the whole view", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home);
  await textBox(page).fill("A dog saw a dog. It barked.");
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(analysed(page)).not.toContainText("128 tokens");
  await expect(analysed(page)).toContainText("tokens");
  await goTo(page, "Pairs");
  await displayOptions(page);
  await page.getByRole("slider", { name: "Similarity τ" }).fill("0.2");
  await page.getByLabel("Hide special tokens").check();
  await page.getByLabel("Distance to").fill("5");
  await expect(page).toHaveURL(/far=5/); // written after the drawing
  await expect(pairCount(page)).toContainText("N ≥ 0.2");
  await drawn(page);
  const count = await pairCount(page).textContent();
  await reload(page);
  await expect(view(page, "Pairs")).toBeVisible();
  await expect(textBox(page)).toHaveValue("A dog saw a dog. It barked.");
  await expect(pairCount(page)).toHaveText(count!);
  await displayOptions(page);
  await expect(page.getByLabel("Hide special tokens")).toBeChecked();
  await page.goBack();
  await expect(view(page, "Maps")).toBeVisible();
  await page.goBack();
  await expect(view(page, "Heads")).toBeVisible();
});

test("everything can be done with the keyboard", async ({ watched: page, home }) => {
  await open(page, home);
  await expect(thumbs(page)).toHaveCount(144);
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await expect(textBox(page)).toBeFocused();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("The cat sat. The cat ran.");
  await page.keyboard.press("Control+Enter");
  await expect(analysed(page)).toContainText("10 tokens");
  for (let n = 0; n < 40 && !(await page.evaluate(() => document.activeElement!.classList.contains("thumb"))); n++)
    await page.keyboard.press("Tab");
  const name = (): Promise<string | null> =>
    page.evaluate(() => document.activeElement!.getAttribute("aria-label"));
  // It enters at the most telling head.
  await expect(chosenThumb(page)).toBeFocused();
  for (const key of ["Control+Home", ...Array<string>(9).fill("ArrowDown"), "ArrowRight"]) await page.keyboard.press(key);
  expect(await name()).toMatch(/layer 9, head 1$/i);
  await page.keyboard.press("Enter");
  await expect(view(page, "Maps")).toBeVisible();
  await page.keyboard.press("]");
  await expect(page).toHaveURL(/layer=9&head=2/);
  await expect(figures(view(page, "Maps"))).toBeVisible(); // what is not there yet has no place among the tabs
  for (let n = 0; n < 40 && !(await page.evaluate(() => document.activeElement!.matches(".heatmap canvas"))); n++)
    await page.keyboard.press("Tab");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  await expect(readout(page)).toContainText("the 1 → the 1");
  await expect(page).toHaveURL(/pin=1.1/);
  await page.keyboard.press("+");
  await expect(page.getByRole("button", { name: "Zoom out" })).toBeEnabled();
  await page.keyboard.press("3");
  await expect(view(page, "Text")).toBeVisible();
  await tokens(page).first().focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Space");
  await expect(chosenTokens(page)).toHaveText("The");
  await page.keyboard.press("4");
  await expect(view(page, "Pairs")).toBeVisible();
  await page.getByRole("region", { name: /^Pairs;/ }).focus();
  await page.keyboard.press("ArrowDown");
  await expect(page.locator("tr.held")).toHaveCount(1);
});

test("an error of the server stands beside its field", async ({ watched: page, home }) => {
  await open(page, home, LONG);
  await expect(analysed(page)).toContainText("128 tokens"); // there is a text to go back to
  await textOptions(page);
  await limit(page).fill("9999");
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(limit(page)).toHaveAttribute("aria-invalid", "true");
  await expect(limit(page)).toHaveAccessibleDescription("Tokens at most is 9999; it must be an integer from 2 to 512");
  await expect(page.getByRole("alert")).toHaveCount(1);
  await expect(page.getByRole("button", { name: "Try again" })).toHaveCount(0);
  await expect(thumbs(page)).toHaveCount(144); // of the text before
  await expect(limit(page)).toHaveValue("9999");
  await limit(page).fill("64");
  await page.getByRole("button", { name: "Analyse" }).click();
  await textOptions(page);
  await expect(limit(page)).toHaveAccessibleDescription("");
  await expect(analysed(page)).toContainText("64 tokens");
  await limit(page).fill("");
  await page.getByRole("button", { name: "Apply" }).click();
  await expect(analysed(page)).toContainText("128 tokens");
  await expect(limit(page)).toHaveValue("");
  await expect(page.getByText("Not analysed yet")).toHaveCount(0);
});

test("a refusal points at a field of the panel only if it is marked there", async ({ page, home }) => {
  for (const [fragment, marked] of [["model=none", 1], ["view=compare&against=model&model2=none", 0]] as const) {
    await open(page, home, fragment);
    await expect(page.getByRole("alert").first()).toContainText("none");
    await expect(page.getByText("The field is marked beside the text.")).toHaveCount(marked);
  }
});

test("a server that is gone is said to be, and can be tried again", async ({ page, home }) => {
  await open(page, home);
  await expect(thumbs(page)).toHaveCount(144);
  await page.route("**/analyze", (route) => route.abort());
  await textBox(page).fill("Gone.");
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(page.getByRole("alert")).toContainText("does not answer");
  await page.unroute("**/analyze");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(analysed(page)).toContainText("4 tokens");
});

test("code that does not come is told, and fetched by a reload", async ({ page, home }) => {
  const lost = /assets\/(corpus|export)-[^/]*\.js/;
  await page.route(lost, (route) => route.abort());
  await open(page, home);
  await expect(thumbs(page).locator("canvas")).toHaveCount(144);
  await expect(analysed(page)).toContainText("tokens");
  await drawn(page);
  const addView = async (says: string): Promise<void> => {
    await page.getByRole("banner").getByText(/^Story/).click();
    await page.getByRole("button", { name: "Add this view" }).click();
    await expect(page.getByRole("banner")).toContainText(says);
    await page.keyboard.press("Escape");
  };
  await addView("Reload the page and add the view again");
  await goTo(page, "Corpus");
  await expect(page.getByRole("alert")).toContainText("The code of this view did not come");
  await page.unroute(lost);
  await page.getByRole("button", { name: "Reload the page" }).click();
  await expect(page.getByRole("heading", { name: "Runs", exact: true })).toBeVisible();
  await addView("Added step 1");
});

test("long work can be cancelled", async ({ page, home }) => {
  await open(page, home);
  await expect(thumbs(page)).toHaveCount(144);
  let release = (): void => {};
  const held = new Promise<void>((done) => {
    release = done;
  });
  await page.route("**/analyze", async (route) => {
    await held;
    await route.continue().catch(() => {});
  });
  await textBox(page).fill("Slow.");
  await page.getByRole("button", { name: "Analyse" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(page.locator(".view .notice:visible")).toContainText("Cancelled");
  release();
  await page.unroute("**/analyze");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(analysed(page)).toContainText("4 tokens");
});

test("512 tokens: every view draws", { tag: "@slow" }, async ({ watched: page, home }) => {
  const text = Array.from({ length: 700 }, (_, n) => `word${n % 37}${n % 11 ? "" : "."}`).join(" ");
  await open(page, home, `max=512&text=${encodeURIComponent(text)}`);
  await expect(analysed(page)).toContainText("512 tokens");
  await expect.poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length)).toBe(1);
  await page.keyboard.press("2");
  await expect.poll(() => colours(page, ".heatmap canvas")).toBeGreaterThan(10);
  await page.keyboard.press("3");
  await expect(tokens(page)).toHaveCount(512);
  await page.keyboard.press("4");
  await expect(pairCount(page)).toContainText("high pairs");
  expect(await pairRows(page).count()).toBeLessThan(100);
});

test("empty text, two segments, strange text", async ({ watched: page, home }) => {
  await open(page, home, "text=");
  await expect(analysed(page)).toContainText("2 tokens");
  for (const key of ["2", "3", "4", "5", "1"]) await page.keyboard.press(key);
  await expect(thumbs(page)).toHaveCount(144);
  await open(page, home, "view=text&text=One.&pair=Two.");
  await expect(page.locator(".flow p")).toHaveCount(2);
  await open(page, home, `view=text&text=${encodeURIComponent("\u0000\u200b‮abc <b>x</b> 👩‍👩‍👧")}`);
  await expect(page.getByRole("listbox")).toContainText("<b>");
});

for (const [width, theme, slow] of [
  [1440, "light", false],
  [1280, "dark", true],
  [390, "dark", true],
] as const)
  test(`accessible, nothing wider than the page: ${width} px, ${theme}`, { tag: slow ? "@slow" : [] }, async ({ watched: page, home }) => {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" }); // a colour half way to another is no finding
    await page.setViewportSize({ width, height: 844 });
    await open(page, home, "layer=1&head=4", true);
    for (const name of VIEWS) {
      await page.evaluate((v) => {
        location.hash = `view=${v}&layer=1&head=4&layer2=2`;
      }, name);
      await expect(page.locator(".view")).toBeVisible();
      await settled(page);
      expect(await page.evaluate(() => document.documentElement.scrollWidth), name).toBeLessThanOrEqual(width);
      expect(await findings(page), name).toEqual([]);
    }
  });

for (const theme of ["light", "dark"] as const)
  for (const [name, fragment] of [
    ["overview", "tint=mean_distance&layer=1&head=4"],
    ["head", "view=head&layer=1&head=4&pin=2.9"],
  ] as const)
    test(`looks as it did: ${name}, ${theme}`, { tag: theme === "dark" ? "@slow" : [] }, async ({ watched: page, home }) => {
      await page.emulateMedia({ colorScheme: theme });
      await open(
        page,
        home,
        `${fragment}&text=${encodeURIComponent("The cat sat on the mat. The dog saw the cat, and ran.")}`,
      );
      if (name === "head") await expect(exactFigures(page)).toBeVisible();
      else await expect.poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length)).toBe(1);
      await settled(page);
      await expect(page).toHaveScreenshot(`${name}-${theme}.png`, { mask: [analysed(page)] });
    });
