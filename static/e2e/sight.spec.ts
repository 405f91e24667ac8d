// Everything in sight: all heads in one window, a few of them large, values at the pointer, layers in motion.
import type { Page } from "@playwright/test";
import { chosenThumb, colours, complete, exactFigures, expect, findHeads, LONG, maps, open, ranked, readout, settled, test, thumb, thumbs, view } from "./viewer";

for (const [width, height] of [
  [1280, 800],
  [1440, 900],
  [390, 844],
] as const)
  test(`all heads are in the window at first: ${width} px`, { tag: width === 1440 ? "@slow" : [] }, async ({ watched: page, home }) => {
    await page.setViewportSize({ width, height });
    await open(page, home);
    await settled(page);
    const foot = (await page.locator(".readout").boundingBox())!.y;
    const bottoms = await thumbs(page).evaluateAll((all) => all.map((one) => one.getBoundingClientRect().bottom));
    expect(bottoms).toHaveLength(144);
    expect(Math.max(...bottoms)).toBeLessThanOrEqual(foot);
  });

// The names of the tokens, as the page's request finds them.
const tokenNames = (page: Page): Promise<string[]> =>
  page.locator(".head-card .names.columns").first().locator("span").allTextContents();

// The picture is the heads, and the two maps beside them.
for (const [width, height, least] of [
  [1280, 800, 0.45],
  [1920, 1080, 0.5],
] as const)
  test(`at least ${100 * least} % of the window is picture: ${width} px`, async ({ watched: page, home }) => {
    await page.setViewportSize({ width, height });
    await open(page, home, "");
    await settled(page);
    const areaOf = (selector: string): Promise<number> =>
      page.locator(selector).evaluateAll((all) => {
        const boxes = all.map((one) => one.getBoundingClientRect());
        return boxes.reduce((sum, { width, height }) => sum + width * height, 0);
      });
    const picture = (await areaOf(".grid [role=row]:not(.header)")) + (await areaOf(".head-card canvas"));
    expect(picture / (width * height)).toBeGreaterThanOrEqual(least);
    const controls = page.locator("a, button:not(.thumb), select, input:not([type=radio]), textarea, summary, fieldset");
    expect(await controls.filter({ visible: true }).count()).toBeLessThanOrEqual(25);
    const sides = await page.locator(".head-card canvas").evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().width)));
    expect(sides).toEqual([sides[0], sides[0]]); // with the names beside one of them, too
  });

test("the chosen head's picture is in sight on a phone", async ({ watched: page, home }) => {
  await page.setViewportSize({ width: 375, height: 800 });
  await open(page, home, "view=head&layer=1&head=11");
  const strip = page.getByRole("group", { name: "Head" });
  for (const head of ["Head 11", "Head 0"]) {
    await strip.getByRole("button", { name: head, exact: true, pressed: true }).waitFor();
    const [all, one] = [await strip.boundingBox(), await strip.getByRole("button", { pressed: true }).boundingBox()];
    expect(one!.x).toBeGreaterThanOrEqual(all!.x);
    expect(one!.x + one!.width).toBeLessThanOrEqual(all!.x + all!.width);
    if (head === "Head 11") await page.evaluate(() => (location.hash = "view=head&layer=1&head=0"));
  }
});

// A text of 144 words, too long for a head to be put in words while the pointer passes it.
const LONGER = `max=512&text=${encodeURIComponent("The river flows past old stone houses. ".repeat(24))}`;

// Copies of another size would be made again, all of them, on the page's main thread.
for (const [which, fragment] of [["a whole text", LONGER], ["the first window of a text", LONG]] as const)
  test(`the worker makes copies of maps as large as the thumbnails, while the server computes: ${which}`, async ({ watched: page, home }) => {
    await page.addInitScript(() => {
      const sides = new Set<number>();
      Object.assign(window, { sides });
      const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function (...message: unknown[]) {
        const { pooling } = message[0] as { pooling?: { side: number } };
        if (pooling) sides.add(pooling.side);
        post.apply(this, message as Parameters<typeof post>);
      };
    });
    await page.route("**/analyze*", async (route) => {
      await new Promise((later) => setTimeout(later, 400)); // longer than answers come without a notice
      await route.continue();
    });
    await open(page, home, fragment);
    await complete(page);
    await settled(page);
    const widths = await thumbs(page).locator("canvas").evaluateAll((all) => [...new Set(all.map((one) => (one as HTMLCanvasElement).width))]);
    expect(widths).toHaveLength(1);
    expect(await page.evaluate(() => [...(window as unknown as { sides: Set<number> }).sides])).toEqual(widths);
  });

test("a pointer that passes heads draws the card alone, and the head where it rests is put in words", async ({ watched: page, home }) => {
  await page.addInitScript(() => {
    const counts = { places: 0, transitions: 0, heads: 0 };
    Object.assign(window, { counts });
    addEventListener("transitionrun", ({ target }) => void (counts.transitions += Number((target as Element).matches(".thumb, .thumb *, .head-card *"))));
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (...message: unknown[]) {
      counts.heads += Number((message[0] as { kind?: string }).kind === "head");
      post.apply(this, message as Parameters<typeof post>);
    };
    const placeOf = Element.prototype.getBoundingClientRect;
    Element.prototype.getBoundingClientRect = function () {
      if (this instanceof HTMLCanvasElement && this.closest(".thumb")) counts.places++;
      return placeOf.call(this);
    };
  });
  await open(page, home, LONGER);
  await complete(page);
  await settled(page);
  const count = (of: "places" | "transitions" | "heads"): Promise<number> =>
    page.evaluate((name) => (window as unknown as { counts: Record<typeof name, number> }).counts[name], of);
  let before = 0;
  const rests = async (): Promise<boolean> => {
    const last = before;
    before = await count("places");
    return before === last;
  };
  await expect.poll(rests, { intervals: [1000] }).toBe(true); // the maps that refine the first pictures come in parts
  expect(before).toBeGreaterThanOrEqual(144); // what is counted is drawn with the grid
  const card = page.getByRole("region", { name: "Enlarged head" });
  const picture = card.locator("canvas").last();
  const pixels = (): Promise<string> => picture.evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
  const seen = new Set([await pixels()]);
  const boxes = await Promise.all(Array.from({ length: 12 }, (_, head) => thumb(page, 3, head).boundingBox()));
  for (const [k, box] of boxes.entries()) {
    await page.mouse.move(box!.x + box!.width / 2, box!.y + box!.height / 2);
    await expect(card).toContainText(`Layer 3 · Head ${k}`);
    seen.add(await pixels());
  }
  expect(seen.size).toBe(13); // each head has its own picture
  await expect(card).toContainText(/It treats|The tokens that it treats/);
  // Some drawings are of the worker's figures, which come last, and of timers. There would be one more for each move.
  expect((await count("places")) - before).toBeLessThan((144 * boxes.length) / 2);
  expect(await count("transitions")).toBe(0); // each would draw frames for as long as it lasts
  expect(await count("heads")).toBeGreaterThan(1); // the head of the first page, and the last: numbers of the worker
});

test("the head under the pointer and the focus stands beside the grid, with its name, its pattern and what it does in words", async ({ watched: page, home }) => {
  await open(page, home);
  await settled(page);
  const card = page.getByRole("region", { name: "Enlarged head" });
  const resting = (await chosenThumb(page).getAttribute("data-head"))!.split(".");
  const atRest = async (): Promise<void> => {
    await expect(card).toContainText(`Layer ${resting[0]} · Head ${resting[1]}`);
    const [box, last] = [(await card.boundingBox())!, (await thumbs(page).nth(143).boundingBox())!];
    expect(box.x).toBeGreaterThan(last.x + last.width);
  };
  await atRest();
  await thumb(page, 1, 2).hover();
  await expect(card).toContainText("Layer 1 · Head 2");
  await expect(card).toContainText("next");
  await expect(card).toContainText(/Each token looks at the one after it: \d+\s%\sof its attention\./);
  await expect(card).toContainText(/It treats|The tokens that it treats/);
  await expect(card.locator(".names.rows").first().locator("span")).toHaveText(await tokenNames(page));
  const [{ y, height: high }, last] = [(await card.locator("canvas").first().boundingBox())!, (await card.locator(".names.rows span").last().boundingBox())!];
  expect(Math.abs(last.y + last.height / 2 - (y + (23.5 / 24) * high))).toBeLessThan(high / 48); // beside its row
  for (const n of [0, 1])
    await expect
      .poll(() => card.locator("canvas").nth(n).evaluate((c) => new Set(new Uint32Array((c as HTMLCanvasElement).getContext("2d")!.getImageData(0, 0, 24, 24).data.buffer)).size))
      .toBeGreaterThan(5);
  const box = (await card.boundingBox())!;
  const small = (await thumb(page, 1, 2).boundingBox())!;
  expect(box.x).toBeGreaterThan(small.x + small.width);
  await thumb(page, 11, 11).focus();
  await expect(card).toContainText("Layer 11 · Head 11");
  const low = (await card.boundingBox())!;
  expect(low.y + low.height).toBeLessThanOrEqual(800);
  await page.keyboard.press("Escape");
  await atRest();
  await page.setViewportSize({ width: 800, height: 800 }); // no space beside the grid
  await expect.poll(async () => (await card.boundingBox())!.y).toBeGreaterThan((await thumbs(page).nth(143).boundingBox())!.y);
  await card.getByRole("button", { name: "Open this head" }).click();
  await expect(page).toHaveURL(new RegExp(`view=head.*layer=${resting[0]}&head=${resting[1]}`));
});

test("small thumbnails stay in the window when they are sorted; both maps make them large", async ({ watched: page, home }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await open(page, home);
  await settled(page);
  await expect(page.getByRole("radio", { name: "Attention", exact: true })).toBeChecked();
  const inSight = (): Promise<number> =>
    thumbs(page).evaluateAll((all) => {
      const foot = document.querySelector(".readout")!.getBoundingClientRect().top;
      return all.filter((one) => one.getBoundingClientRect().bottom <= foot).length;
    });
  await expect.poll(inSight).toBe(144);
  await expect.poll(() => colours(page, ".thumb[data-head='11.11'] canvas")).toBeGreaterThan(5);
  await findHeads(page);
  await expect.poll(inSight).toBe(144);
  await page.getByLabel("Sort by").selectOption("high_pairs");
  await expect.poll(inSight).toBe(144);
  await page.getByRole("radio", { name: "Both" }).check();
  await expect.poll(inSight).toBeLessThan(144);
});

test("the few heads that a filter leaves are larger", async ({ watched: page, home }) => {
  await open(page, home);
  await settled(page);
  const width = async (): Promise<number> => (await thumbs(page).first().boundingBox())!.width;
  const before = await width();
  await findHeads(page);
  await page.getByLabel("Find heads").fill("layer 3");
  await expect(thumbs(page)).toHaveCount(12);
  expect(await width()).toBeGreaterThan(1.4 * before);
  await thumbs(page).first().focus();
  await page.keyboard.press("ArrowDown");
  await expect(thumbs(page).nth(6)).toBeFocused();
});

test("the value stands beside the pointer and goes with it", async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=4");
  await expect.poll(() => colours(page, ".plate canvas")).toBeGreaterThan(10);
  const map = maps(page).first();
  await expect(page.locator(".tip").first()).toBeHidden();
  await map.hover({ position: { x: 200, y: 220 } });
  await expect(page.locator(".tip").first()).toBeVisible();
  const line = (await readout(page).textContent())!;
  expect(await page.locator(".tip").first().textContent()).toBe(line.split(/ {3,}/).join("\n"));
  await page.locator("h1, .toolbar").last().hover();
  await expect(page.locator(".tip").first()).toBeHidden();
});

test("play shows the head of each layer until the last", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=9&head=4");
  await page.getByRole("button", { name: "Play the layers" }).click();
  await expect(page.getByRole("combobox", { name: "Layer", exact: true })).toHaveValue("11");
  await expect(page).toHaveURL(/head=4/);
  await expect(page.getByRole("button", { name: "Play the layers" })).toBeVisible();
  await page.getByRole("button", { name: "Play the layers" }).click();
  await expect(page.getByRole("combobox", { name: "Layer", exact: true })).toHaveValue("2");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(page.getByRole("button", { name: "Play the layers" })).toBeVisible();
});

test("heads are sorted by their induction score, which is the service's", async ({ watched: page, home, request }) => {
  const answer = await request.post(`${home}analyze`, { data: { text: "", layers: "all", outputs: ["head_scores"] } });
  const best = ranked((await answer.json()).head_scores as { induction: number }[][], (one) => one.induction);
  await open(page, home);
  await findHeads(page);
  await page.getByLabel("Sort by").selectOption({ label: "Induction score" });
  await expect.poll(() => thumbs(page).locator("b").allTextContents()).toEqual(best.map(({ name }) => name));
  await page.getByRole("combobox", { name: "Pattern" }).selectOption("induction");
  const found = best.filter(({ value }) => value >= 0.4).length;
  await expect(thumbs(page)).toHaveCount(found);
});

test("the worker makes a head of many tokens; the one before is not seen in its place", async ({ watched: page, home, request }) => {
  await open(page, home, `view=head&layer=1&head=2&pin=3.5&${LONGER}`);
  await settled(page);
  const maps = view(page, "Maps");
  await expect(exactFigures(maps)).toBeVisible();
  // The exact answer does not come.
  await page.route("**/analyze*", async (route) => {
    if (route.request().postDataJSON()?.outputs?.includes("similarities")) return;
    await route.continue();
  });
  const busy = maps.evaluate((node) => new Promise<string>((done) => {
    new MutationObserver(() => {
      if (node.getAttribute("aria-busy") === "true") done(getComputedStyle(node.querySelector(".maps-and-lines")!).opacity);
    }).observe(node, { attributes: true });
  }));
  await maps.getByRole("button", { name: "Head 3", exact: true }).click();
  expect(await busy).toBe("0");
  await expect(maps).toHaveAttribute("aria-busy", "false");
  const answer = await (await request.post(`${home}analyze`, { data: { text: decodeURIComponent(LONGER.split("text=")[1]!), max_tokens: 512,
    layers: [1], heads: [3], outputs: ["attentions", "similarities"] } })).json();
  const said = (name: string) => expect.poll(async () => Number(new RegExp(`   ${name} (\\S+)`).exec((await readout(page).textContent())!)?.[1]?.replace("−", "-")));
  await said("A").toBeCloseTo(answer.attentions[0][0][3][5], 2);
  await said("S").toBeCloseTo(answer.similarities[0][0][3][5], 1);
});
