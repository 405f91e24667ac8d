// Checks what a first visit sees: a short text whose tokens are all named, a telling head, and all heads at once.
import type { Page } from "@playwright/test";
import { EXAMPLES } from "../src/app/examples";
import { analysed, chosenThumb, colours, displayOptions, exactFigures, expect, findings, firstText, goTo, LONG, open, ranked, settled, taskTest, test, thumb, view } from "./viewer";

test("the title of the document names head, text and view", async ({ watched: page, home }) => {
  await open(page, home, `view=head&layer=1&head=4&text=${encodeURIComponent("A dog saw the cat.")}`);
  await expect(page).toHaveTitle("Layer 1 · head 4 · “A dog saw the cat.” · Maps · headscope");
  await page.getByRole("combobox", { name: "Layer", exact: true }).selectOption("3");
  await expect(page).toHaveTitle(/^Layer 3 · head 4/);
  await page.keyboard.press("1");
  await expect(page).toHaveTitle("“A dog saw the cat.” · Heads · headscope");
  await open(page, home, `view=trace&layer=1&head=4&text=${encodeURIComponent("A dog saw the cat.")}`); // of all heads
  await expect(page).toHaveTitle("“A dog saw the cat.” · Trace · headscope");
  await open(page, home, "view=corpus");
  await expect(page).toHaveTitle("Corpus · headscope");
});

for (const width of [1280, 390])
  test(`the first text is short, and Head opens on a telling head with every token named: ${width} px`, { tag: width === 390 ? "@slow" : [] }, async ({
    watched: page,
    home,
    request,
  }) => {
    await page.setViewportSize({ width, height: 844 });
    const { tokens, summary } = await firstText(request, home, { outputs: ["summary"] });
    expect(tokens.length).toBeLessThanOrEqual(25);
    const telling = ranked(
      summary as { snr_dprime: number | null; high_pairs: number }[][],
      ({ snr_dprime, high_pairs }) => (high_pairs < 10 ? -Infinity : (snr_dprime ?? -Infinity)),
    )[0]!;
    await open(page, home, "view=head");
    await expect.poll(() => colours(page, ".plate .heatmap canvas")).toBeGreaterThan(5);
    await settled(page);
    await expect(page.getByRole("combobox", { name: "Layer", exact: true })).toHaveValue(String(telling.layer));
    await expect(page.getByRole("group", { name: "Head", exact: true }).getByRole("button", { pressed: true })).toContainText(String(telling.head));
    await expect(page.locator(".map-note").first()).toHaveText("");
  });

test("the first page shows a telling head with centred similarity, says so, and is a click from S", async ({ watched: page, home, request }) => {
  const sent: { text: string; center?: string }[] = [];
  page.on("request", (one) => void (one.url().endsWith("/analyze") && sent.push(one.postDataJSON() as { text: string })));
  await open(page, home, "");
  await settled(page);
  const { summary } = await firstText(request, home, { outputs: ["summary"], center: "text" });
  const telling = ranked(
    summary as { snr_dprime: number | null; high_pairs: number }[][],
    ({ snr_dprime, high_pairs }) => (high_pairs < 10 ? -Infinity : (snr_dprime ?? -Infinity)),
  )[0]!;
  const card = page.getByRole("region", { name: "Enlarged head" });
  await expect(card).toContainText(`Layer ${telling.layer} · Head ${telling.head}`);
  const similarity = (): Promise<string> => card.locator("canvas").nth(1).evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
  const centred = await similarity();
  expect(sent.some(({ center }) => center === "text")).toBe(true);
  await expect(page).toHaveURL(/center=1/); // the link shows the same
  await expect(page.locator(".overview .about")).toContainText("Similarity is centred");
  await page.getByRole("button", { name: "Show the paper’s S" }).click();
  await displayOptions(page);
  await expect(page.locator(".overview .about")).not.toContainText("centred");
  await expect(page.getByLabel("Centre outputs")).not.toBeChecked();
  await expect.poll(similarity).not.toBe(centred);
  await page.goBack();
  await expect(page.getByLabel("Centre outputs")).toBeChecked();
  await page.getByLabel("Text", { exact: true }).fill("A text of one's own.");
  await page.getByRole("button", { name: "Analyse" }).click();
  await expect(analysed(page)).toContainText("10 tokens");
  await displayOptions(page);
  await expect(page.getByLabel("Centre outputs")).not.toBeChecked();
});

test("a long text is one choice away", async ({ watched: page, home }) => {
  await open(page, home, "");
  await page.getByLabel("Examples").selectOption({ label: EXAMPLES[1]!.name });
  await expect(analysed(page)).toContainText("128 tokens (cut)");
});

test("a head opens in the colours of its thumbnail: the square root, attention from 0 to 1", async ({ watched: page, home }) => {
  await open(page, home, "");
  await settled(page);
  await chosenThumb(page).click();
  await expect(view(page, "Maps")).toBeVisible();
  await expect(page.getByRole("radio", { name: "Root" })).toBeChecked();
  const bars = page.getByRole("figure").getByRole("img");
  await expect(bars.first()).toContainText("square root, 0 to 1.00");
  await expect(bars.nth(1)).toContainText("square root, −");
});

test("the first thumbnails of a text of 512 tokens need no whole map, which then refine them", async ({ watched: page, home }) => {
  let free: () => void = () => {};
  const released = new Promise<void>((done) => (free = done));
  let whole = 0;
  await page.route("**/analyze*", async (route) => {
    const { outputs, text } = route.request().postDataJSON() as { outputs?: string[]; text: string };
    if (outputs?.includes("attentions") && text.length > 1000) {
      whole++;
      await released;
    }
    await route.continue();
  });
  await open(page, home, `max=512&${LONG}${encodeURIComponent(" The old bridge is closed.".repeat(100))}`);
  await expect(analysed(page)).toContainText("512 tokens");
  await expect.poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length)).toBe(1);
  const pictures = (): Promise<Uint8ClampedArray[]> =>
    page.locator(".thumb canvas").evaluateAll((all) =>
      (all as HTMLCanvasElement[]).map((one) => one.getContext("2d")!.getImageData(0, 0, one.width, one.width).data),
    );
  const distance = (a: Uint8ClampedArray, b: Uint8ClampedArray): number => a.reduce((sum, v, k) => sum + Math.abs(v - b[k]!), 0) / a.length;
  const coarse = await pictures();
  expect(coarse.length).toBe(144);
  expect(coarse.every((one) => one.some((v) => v !== one[0]))).toBe(true);
  await expect.poll(() => whole).toBeGreaterThan(1);
  free();
  let changes: number[] = [];
  const refined = async (): Promise<number> => {
    const exact = await pictures();
    changes = coarse.map((one, k) => distance(one, exact[k]!));
    return changes.filter(Boolean).length;
  };
  await expect.poll(refined).toBeGreaterThan(100);
  expect(changes.filter((by) => by > 24)).toEqual([]);
});

test("arrow keys count while the maps are still computed, and when a text is analysed", async ({ watched: page, home }) => {
  let answer: () => void = () => {};
  const hold = (): Promise<void> => new Promise((done) => (answer = done));
  let held = hold();
  await page.route("**/analyze*", async (route) => {
    await held;
    await route.continue();
  });
  await open(page, home);
  await thumb(page, 0, 0).focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await expect(thumb(page, 1, 1)).toBeFocused();
  answer();
  await settled(page);
  await expect(thumb(page, 1, 1)).toBeFocused();
  held = hold();
  await page.evaluate(() => (location.hash += "&pair=Yes."));
  await expect(page.locator(".grid.early")).toBeAttached();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  answer();
  await settled(page);
  await expect(thumb(page, 1, 3)).toBeFocused();
});

taskTest("a model for fewer than 128 tokens opens, and cuts a long text at its own limit", async ({ watched: page, home }) => {
  await open(page, home, `model=short&${LONG}`);
  await expect(analysed(page)).toContainText("32 tokens (cut)");
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(5);
  await expect(page.getByRole("alert")).toHaveCount(0);
  for (const name of ["Text", "Pairs", "Experiment", "Trace", "Compare"]) {
    await goTo(page, name);
    await expect(view(page, name)).toBeVisible();
    await settled(page);
    await expect(page.getByRole("alert")).toHaveCount(0);
  }
});

// The map within the window's free part, between the bars.
const inSight = (page: Page, n: number): Promise<boolean> =>
  page.locator(".plate .heatmap").nth(n).evaluate((map) => {
    const { top, bottom } = map.getBoundingClientRect();
    const bar = document.querySelector(".top")!;
    const above = getComputedStyle(bar).position === "sticky" ? bar.getBoundingClientRect().bottom : 0;
    return top >= above && bottom <= document.querySelector(".readout")!.getBoundingClientRect().top;
  });

test("both maps of a head are entirely in sight, and one at twice the size", async ({ watched: page, home }) => {
  await open(page, home, "view=head");
  await settled(page);
  expect([await inSight(page, 0), await inSight(page, 1)]).toEqual([true, true]);
  const above = page.getByRole("group", { name: "Head at a glance" }); // the name and the pattern stand before them
  await expect(above).toContainText(/distance .*entropy /);
  expect((await above.boundingBox())!.y).toBeLessThan((await page.locator(".plate").first().boundingBox())!.y);
  await page.setViewportSize({ width: 640, height: 400 }); // 1280 × 800 at 200 %
  await settled(page);
  await page.locator(".plate .heatmap").first().evaluate((map) => map.scrollIntoView({ block: "end" }));
  await page.mouse.wheel(0, 40);
  await expect.poll(() => inSight(page, 0)).toBe(true);
});

test("one “?” explains a row of controls", async ({ watched: page, home }) => {
  await open(page, home, "");
  for (const name of ["Heads", "Maps", "Text", "Pairs", "Compare", "Experiment", "Trace"]) {
    await goTo(page, name);
    await settled(page);
    const [row] = await view(page, name).locator(".toolbar:has(> .ends)").all();
    await expect(row!.locator(".what")).toHaveCount(1);
    expect((await row!.boundingBox())!.height, name).toBeLessThan(90); // two rows of controls are 106
  }
});

test("the tour never lies over a shared link, and frames what it speaks of", async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=2", true);
  await expect(exactFigures(page)).toBeVisible();
  await expect(page.getByRole("dialog", { name: "Tour" })).toHaveCount(0);
  await page.goto("about:blank");
  await open(page, home, "", true);
  await expect(chosenThumb(page)).toBeVisible();
  const tour = page.getByRole("dialog", { name: "Tour" });
  const framed = page.locator("[data-toured]");
  for (const part of [/^line$/, /thumb/, /toolbar/, /^Head$/, /^What if$/]) {
    await expect(framed).toHaveCount(1);
    const [own, within, text] = await framed.evaluate((one) => [one.className, one.parentElement!.className, one.textContent]);
    expect([own, within, text].some((words) => part.test(words ?? "")), String(part)).toBe(true);
    await expect(framed).toBeInViewport();
    // The frame cuts through no line: each control lies inside or outside of it.
    expect(await page.getByRole("button", { name: "Analyse" }).evaluate((one) => {
      const frame = document.querySelector("[data-toured]")!.getBoundingClientRect();
      const { top, bottom, left } = one.getBoundingClientRect();
      return left < frame.right && top < frame.bottom + 4 && bottom > frame.bottom;
    })).toBe(false);
    await tour.getByRole("button", { name: /Next|Done/ }).click();
  }
  await expect(tour).toHaveCount(0);
});

const SHOWN = [
  ["Heads", "", [".thumb canvas", ".colour-bar .strip"]],
  ["Maps", "view=head", [".plate .heatmap canvas", ".plate .colour-bar .strip"]],
  ["Text", "view=text&layer=1&head=4&sel=3", [".token[style*=background]", ".colour-bar .strip", ".lists li span"]],
  ["Pairs", "view=pairs&layer=1&head=4", [".token[style*=background]", "table.pairs", ".pair-legend button"]],
  ["Compare", "view=compare&layer=1&head=4&layer2=2", [".plate .heatmap canvas", ".plate .colour-bar .strip"]],
  ["Experiment", "view=experiment&edits=z1.2", [".switches button", ".token", ".barred span"]],
  ["Trace", "view=trace", [".routes path", ".routes text", ".route span"]],
] as const;
const FORCED = { forcedColors: "active", colorScheme: "light" } as const;
for (const [name, fragment, shown] of SHOWN) {
  test(`maps, token colours and colour bars stay, in forced colours and in print: ${name}`, async ({ watched: page, home }) => {
    await open(page, home, fragment);
    await expect(page.locator(shown[0]).first()).toBeVisible();
    await settled(page);
    const colour = (): Promise<string[]> =>
      page.locator(shown.join()).evaluateAll((all) => all.map((one) => getComputedStyle(one).backgroundColor + getComputedStyle(one).backgroundImage));
    const tinted = (await colour()).filter((one) => !/^rgba\(0, 0, 0, 0\)none/.test(one));
    for (const media of [FORCED, { media: "print", forcedColors: null }] as const) {
      await page.emulateMedia(media);
      for (const part of shown) await expect(page.locator(part).filter({ visible: true }).first(), part).toBeVisible();
      const after = await colour();
      expect(after.filter((one) => tinted.includes(one)).length).toBeGreaterThanOrEqual(tinted.length);
    }
    await expect(page.locator(".top, .panel, .readout, .ends button, fieldset, select, .field").filter({ visible: true })).toHaveCount(0);
    await expect(page.locator(".printed")).toContainText("headscope · mini · ");
    expect(await page.locator(shown[0]).first().evaluate((one) => getComputedStyle(one).getPropertyValue("print-color-adjust"))).toBe("exact");
  });

  test(`axe finds nothing serious or moderate in forced colours: ${name}`, { tag: name === "Maps" ? [] : "@slow" }, async ({ watched: page, home }) => {
    await page.emulateMedia(FORCED);
    await open(page, home, fragment);
    await expect(page.locator(shown[0]).first()).toBeVisible();
    await settled(page);
    expect(await findings(page)).toEqual([]);
  });
}
