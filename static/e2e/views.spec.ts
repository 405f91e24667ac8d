// Each view's main path.
import { bodyRows, chosenTokens, colours, displayOptions, drawn, expect, exportMenu, figures, findHeads, findings, LONG, maps, menuNote, more, open, pairCount, pairRows, readout, reload, saved, test, textBox, thumbs, tokens, view } from "./viewer";

test("first visit: the example is analysed, a tour of five steps shows it and can be left", async ({ watched: page, home }) => {
  await open(page, home, "", true);
  await expect(thumbs(page)).toHaveCount(144);
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(10);
  const tour = page.getByRole("dialog", { name: "Tour" });
  await expect(tour).toContainText("1 of 5");
  await expect(tour).toBeFocused();
  await tour.getByRole("button", { name: "Next", exact: true }).click();
  await expect(page.locator("[data-toured]")).toHaveClass(/thumb/);
  await tour.getByRole("button", { name: "Show" }).click();
  await expect(view(page, "Maps")).toBeVisible();
  await page.goBack();
  await expect(view(page, "Heads")).toBeVisible();
  for (let step = 3; step <= 5; step++) await tour.getByRole("button", { name: "Next", exact: true }).click();
  await tour.getByRole("button", { name: "Done" }).click();
  await expect(tour).toBeHidden();
  await expect(page.locator("#stage")).toBeFocused();
  expect(await page.evaluate(() => scrollY)).toBe(0); // the telling head stays beside the grid
  await reload(page);
  await expect(thumbs(page)).toHaveCount(144);
  await expect(tour).toBeHidden();
  await page.keyboard.press("?");
  await page.getByRole("button", { name: "Take the tour" }).click();
  await tour.getByRole("button", { name: "Next", exact: true }).press("Escape");
  await expect(tour).toBeHidden();
  await expect(page.locator("[data-toured]")).toHaveCount(0);
});

test("overview: no map of the text before stands under a new one", async ({ watched: page, home }) => {
  await open(page, home, "text=The+cat+sat+on+the+mat.");
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(10);
  // In every frame: what the first thumbnail shows once the grid is there again.
  await page.evaluate(() => {
    const grid = document.querySelector<HTMLElement>(".grid")!;
    const first = grid.querySelector<HTMLCanvasElement>(".thumb canvas")!;
    const old = first.toDataURL();
    let left = false;
    const look = (): void => {
      const seen = first.checkVisibility({ visibilityProperty: true });
      left ||= !seen;
      const shown = left && seen;
      if (shown && first.toDataURL() === old) document.body.dataset.stale = "1";
      if (shown) document.body.dataset.again = "1";
      requestAnimationFrame(look);
    };
    look();
  });
  await page.getByLabel("Text", { exact: true }).fill("A dog ran, and another dog ran after it to the river.");
  await page.keyboard.press("Control+Enter");
  await expect(page.locator("body[data-again]")).toBeAttached();
  await expect.poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length)).toBe(2);
  await expect(page.locator("body[data-stale]")).toHaveCount(0);
});

test("overview: nor under one that was left before its maps came, and come back to", { tag: "@slow" }, async ({ watched: page, home }) => {
  // Until the page has heard of it: it does so after this returns otherwise, now and then.
  const go = (text: string): Promise<void> =>
    page.evaluate(
      (fragment) =>
        new Promise<void>((heard) => {
          addEventListener("hashchange", () => heard(), { once: true });
          location.hash = fragment;
        }),
      `text=${text}`,
    );
  const painted = (): Promise<string> => thumbs(page).locator("canvas").first().evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
  let late = false;
  await page.route("**/analyze*", async (route) => {
    if (late && route.request().postData()!.includes('"attentions"')) return; // never
    await route.continue();
  });
  await open(page, home, "text=cat");
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(2);
  const first = await painted();
  late = true;
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 60_000); // patience does not end; a minute, or it may be over before
  await go("dog");
  await page.clock.runFor(50);
  await expect.poll(async () => (await page.clock.runFor(20), painted())).not.toBe(first);
  await go("cat");
  await page.clock.runFor(50);
  await expect.poll(async () => (await page.clock.runFor(20), painted())).toBe(first);
  await go("dog");
  await page.clock.runFor(50);
  expect(await painted()).not.toBe(first);
});

test("overview: sorts by a figure, colours by it, opens a head", async ({ watched: page, home }) => {
  await open(page, home);
  await findHeads(page);
  await page.getByLabel("Sort by").selectOption("repeated_share");
  await expect(page.locator(".grid.sorted")).toBeVisible();
  await expect(thumbs(page).locator(".figure span")).toHaveCount(144);
  await page.getByText("All figures as a table").click();
  await expect(page.locator(".alternative tbody tr")).toHaveCount(144);
  await thumbs(page).first().click();
  await expect(view(page, "Maps")).toBeVisible();
  await expect(page).toHaveURL(/view=head/);
});

test("overview: the threshold acts at once and the server's figures follow", async ({ watched: page, home }) => {
  await open(page, home, "tint=high_pairs");
  const first = thumbs(page).locator(".figure").first();
  const at = async (): Promise<number> => Number((await first.textContent())!.replace(",", ""));
  await expect.poll(at).toBeGreaterThan(0);
  const before = await at();
  const exact = page.waitForResponse(
    (r) => r.url().endsWith("/analyze") && r.request().postData()!.includes('"threshold":0.6'),
  );
  await displayOptions(page);
  await page.getByRole("slider", { name: "Similarity τ" }).fill("0.6");
  await expect.poll(at).toBeLessThan(before);
  expect((await exact).ok()).toBe(true);
  await expect(page).toHaveURL(/tau=0.6/);
});

test("head: values under the pointer are those of the service", async ({ watched: page, home, request }) => {
  await open(page, home, "view=head&layer=9&head=3&text=The+cat+sat.+The+cat+ran.&pin=2.6");
  await expect.poll(() => colours(page, ".heatmap canvas")).toBeGreaterThan(10);
  const answer = await (
    await request.post(`${home}analyze`, {
      data: {
        text: "The cat sat. The cat ran.",
        layers: [9],
        heads: [3],
        outputs: ["attentions", "similarities"],
        digits: 9,
      },
    })
  ).json();
  const expected = [answer.attentions[0][0][2][6], answer.similarities[0][0][2][6]];
  await expect(readout(page)).toContainText("S ");
  const text = (await readout(page).textContent())!.replaceAll("−", "-");
  const [a, s] = [/A (\S+)/, /S (\S+)/].map((pattern) => Number(pattern.exec(text)![1]));
  expect(Math.abs(a! - expected[0])).toBeLessThan(0.006 * Math.abs(expected[0]));
  expect(Math.abs(s! - expected[1])).toBeLessThan(0.006 * Math.abs(expected[1]));
  expect(text).toContain("cat 2 → cat 6");
  expect(text).toContain("same token");
});

test("head: the line about a cell goes with the view, and comes back with it", async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=4&pin=2.5");
  await expect(readout(page)).toContainText(" 2 → ");
  await page.keyboard.press("1");
  await expect(thumbs(page)).toHaveCount(144);
  await expect(readout(page)).toHaveText(/^Point at a map/);
  await page.goBack();
  await expect(readout(page)).toContainText(" 2 → ");
});

test("head: scales, overlays, diagonal, zoom and the summed heads change the picture", async ({
  watched: page,
  home,
}) => {
  await open(page, home, "view=head&layer=2&head=3");
  const picture = (): Promise<string> =>
    page
      .locator(".heatmap canvas")
      .nth(2)
      .evaluate((c) => (c as HTMLCanvasElement).toDataURL());
  await expect(figures(page)).toContainText("Maximum m");
  await drawn(page);
  let last = await picture();
  const changes = async (act: () => Promise<unknown>): Promise<void> => {
    await act();
    await expect.poll(picture).not.toBe(last);
    last = await picture();
  };
  await changes(() => page.getByRole("radio", { name: "Log" }).check());
  await changes(() => page.getByRole("radio", { name: "Per row" }).check());
  await changes(() => page.getByLabel("Overlay").selectOption("mask"));
  await changes(() => page.getByLabel("Overlay").selectOption("regions"));
  await changes(() => page.getByLabel("Overlay").selectOption("pairs"));
  await more(page);
  await changes(() => page.getByLabel("Diagonal").selectOption("on"));
  await changes(() => page.getByRole("button", { name: "Zoom in" }).click());
  await changes(() => page.getByRole("button", { name: "Whole map" }).click());
  await changes(() => page.getByRole("button", { name: "sum", exact: true }).click());
  await expect(page).toHaveURL(/head=-1/);
  await displayOptions(page);
  await changes(() => page.getByLabel("Merge word pieces").check());
  await changes(() => page.getByLabel("Hide special tokens").check());
});

test("text: a chosen token shows what it attends to, is attended by and is similar to", async ({
  watched: page,
  home,
}) => {
  await open(page, home, "view=text&layer=1&head=4");
  await expect(page.locator(".arc").first()).toBeAttached();
  await page
    .locator(".token", { hasText: /^The$/ })
    .first()
    .click();
  await expect(page.locator(".lists .card h2")).toHaveText(["Attends to", "Attended by", "Similar to"]);
  await expect(page.locator(".lists .card").first().getByRole("listitem")).toHaveCount(8);
  await expect(page).toHaveURL(/sel=1/);
  await tokens(page)
    .nth(5)
    .click({ modifiers: ["Shift"] });
  await expect(chosenTokens(page)).toHaveCount(2);
  await page.getByLabel("Segments", { exact: true }).check();
  await expect(page.locator(".arcs rect").first()).toBeAttached();
  await expect(page.getByRole("heading", { name: "Segments of the layer" })).toBeVisible();
  await page.getByLabel("Lines", { exact: true }).uncheck();
  await expect(page.locator(".arc")).toHaveCount(0);
});

test("text: shown as written, cut end and all", async ({ watched: page, home }) => {
  const text = "Ünïcode  naïve 🙂 日本。\nNext line [MASK] here";
  await open(page, home, `view=text&max=12&text=${encodeURIComponent(text)}`);
  const shown = page.locator(".flow .lines");
  await expect(page.locator(".rest")).toBeVisible();
  const parts = await shown.evaluate((p) =>
    [...p.childNodes]
      .filter((n) => !(n as Element).classList?.contains("special"))
      .map((n) => n.textContent)
      .join(""),
  );
  expect(parts).toBe(text);
});

test("pairs: a legend names the tokens of most pairs, in colours that stay apart", async ({ watched: page, home, request }) => {
  await open(page, home, `view=pairs&layer=1&head=4&${LONG}`);
  const text = await textBox(page).inputValue();
  const body = { text, layers: [1], heads: [4], outputs: ["pairs"], max_pairs: 100_000 };
  const { pairs } = (await (await request.post(`${home}analyze`, { data: body })).json()) as { pairs: { token_i: string; token_j: string }[] };
  const counts = new Map<string, number>();
  for (const { token_i, token_j } of pairs)
    for (const token of new Set([token_i, token_j])) counts.set(token, (counts.get(token) ?? 0) + 1);
  const most = [...counts.values()].sort((a, b) => b - a).slice(0, 8);
  const legend = page.getByRole("list", { name: "Colours: the tokens of most pairs" });
  const shown = legend.getByRole("button");
  await expect(shown).toHaveCount(8);
  expect((await shown.locator("small").allTextContents()).map((n) => Number(n.replace(",", "")))).toEqual(most);
  await expect(legend).toContainText(`${counts.size - 8} other tokens`);
  const colours = await page.locator(".text-side .token:not(.apart)").evaluateAll((all) => all.map((one) => getComputedStyle(one).backgroundColor));
  expect(new Set(colours).size).toBe(9);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await reload(page);
    await expect(shown).toHaveCount(8);
    const axe = { runOnly: ["color-contrast"] }; // the other rules: "accessible"
    expect(await findings(page, axe)).toEqual([]);
  }
  const label = (await shown.first().textContent())!.replace(/ [\d,]+$/, "");
  await shown.first().focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("searchbox", { name: "Token" })).toHaveValue(label);
});

test("pairs: the table agrees with the service; filters and orders act on it", async ({
  watched: page,
  home,
  request,
}) => {
  await open(page, home, `view=pairs&layer=1&head=4&${LONG}`);
  const rows = pairRows(page);
  await expect(rows.first()).toBeVisible();
  const text = await textBox(page).inputValue();
  const answer = await (
    await request.post(`${home}analyze`, { data: { text, layers: [1], heads: [4], outputs: ["pairs"] } })
  ).json();
  await expect(pairCount(page)).toContainText(`of ${answer.pairs_total.toLocaleString("en")} high pairs`);
  const [first] = answer.pairs;
  await expect(rows.first()).toContainText(`${first.token_i}${first.token_j}${first.i}${first.j}`);
  await page.getByRole("group", { name: "Same token" }).getByRole("radio", { name: "Yes" }).check();
  const same = answer.pairs.filter((p: { same_token: boolean }) => p.same_token).length;
  await expect(pairCount(page)).toContainText(`${same.toLocaleString("en")} of`);
  await page.getByRole("button", { name: "Dist." }).click();
  await expect(page.locator("th[aria-sort=descending]")).toHaveText("Dist.");
  await rows.first().click();
  await expect(page.locator(".token.held").first()).toBeVisible();
  await page.getByRole("searchbox", { name: "Token" }).fill("zzzz");
  await expect(page.locator(".empty")).toBeVisible();
  await expect(page.getByRole("img", { name: "Histogram of distances" })).toBeVisible();
});

test("compare: two heads, then two texts over the tokens they share", async ({ watched: page, home }) => {
  await open(page, home, "view=compare&layer=1&head=4&layer2=2&head2=3&text=The+cat+sat+on+the+mat.");
  await expect(maps(page)).toHaveCount(3);
  await expect(figures(page)).toContainText("Correlation");
  await page.getByRole("radio", { name: "Another text" }).check();
  await page.getByLabel("Second text", { exact: true }).fill("The black cat sat on the mat.");
  await page.getByRole("button", { name: "Compare", exact: true }).last().click();
  await expect(figures(page).getByRole("definition").first()).toContainText("9");
  await expect(bodyRows(page.getByRole("table", { name: /^Largest differences/ }))).toHaveCount(8);
  await page
    .locator(".heatmap canvas")
    .nth(5)
    .hover({ position: { x: 150, y: 150 } });
  await expect(readout(page)).toContainText("difference");
  await page.getByRole("radio", { name: "Another model" }).check();
  await page.getByLabel("Second model").selectOption("twin");
  await page.getByRole("group", { name: "Head", exact: true }).nth(1).getByRole("button", { name: "Head 4", exact: true }).click();
  await page.getByLabel("Second: layer").selectOption("1");
  await expect(figures(page).locator("dl > div").nth(1)).toHaveText("Mean |difference|0");
  await expect(figures(page).locator("dl > div").nth(2)).toHaveText("Correlation1.00");
});

test("compare: Ctrl+Enter in the second text compares", async ({ watched: page, home }) => {
  await open(page, home, "view=compare&against=text&layer=1&head=4&text=The+cat+sat.");
  await page.getByLabel("Second text", { exact: true }).fill("The dog sat.");
  await page.keyboard.press("Control+Enter");
  await expect(page).toHaveURL(/text2=The\+dog\+sat/);
  await expect(maps(page)).toHaveCount(3);
});

test("export: picture, vector, table and arrays carry where they came from", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=4&text=The+cat+sat.&tau=0.4");
  await expect(figures(page)).toContainText("Maximum m");
  const save = async (name: string): Promise<Buffer> => {
    const { bytes, file } = await saved(page, name);
    expect(file).toBe(`headscope-mini-head-l1-h4.${name.toLowerCase()}`);
    return bytes;
  };
  const png = await save("PNG");
  expect(png.subarray(1, 4).toString()).toBe("PNG");
  expect(png.toString("latin1")).toContain('"text":"The cat sat."');
  const vector = (await save("SVG")).toString();
  expect(vector).toContain("<metadata>");
  expect(vector).toContain(">Context similarity</text>");
  const csv = (await save("CSV")).toString();
  expect(csv.trim().split("\r\n")).toHaveLength(1 + 36);
  expect(JSON.parse((await save("JSON")).toString()).model).toBe("mini");
  const npz = await save("npz");
  expect(npz.subarray(0, 2).toString()).toBe("PK");
});

test("export: the copied curl command and Python program name the request", async ({
  watched: page,
  home,
  context,
}) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, home, `view=head&layer=1&head=4&text=${encodeURIComponent('It\'s "so"\n')}`);
  await expect(figures(page)).toContainText("Maximum m");
  await exportMenu(page).click();
  const copied = async (name: string): Promise<string> => {
    await page.getByRole("button", { name: new RegExp(`^${name}`) }).click();
    await expect(menuNote(page)).toContainText(new RegExp(`Copied the ${name}`, "i"));
    return page.evaluate(() => navigator.clipboard.readText());
  };
  expect(await copied("curl")).toContain(`${home}analyze?format=npz`);
  expect(await copied("Python")).toContain("np.load");
  expect(await copied("Link")).toContain("layer=1");
});
