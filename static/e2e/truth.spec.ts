// Pictures that must not mislead.
import type { Page } from "@playwright/test";
import { exactFigures, expect, figure, firstText, looking, open, pairCount, type Place, ranked, readout, settled, test, textBox, thumb, thumbs, view } from "./viewer";


// The colours of a canvas, row by row.
const pixels = (page: Page, selector: string, nth = 0): Promise<{ width: number; data: number[] }> =>
  page
    .locator(selector)
    .nth(nth)
    .evaluate((node) => {
      const canvas = node as HTMLCanvasElement;
      const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
      return { width: canvas.width, data: [...new Uint32Array(data.buffer)] };
    });
const darkness = (colour: number): number => 765 - (colour & 255) - ((colour >> 8) & 255) - ((colour >> 16) & 255);

test("whole maps by default: a head that looks one word back is as plain as one that looks ahead", async ({
  watched: page,
  home,
  request,
}) => {
  const [{ layer, head, value }] = (await looking(request, home, "previous")) as [Place];
  await open(page, home, "show=both&small=0");
  await expect.poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length)).toBe(1);
  // One picture: the attention, a strip of offsets -3 .. 3, the similarity.
  const { width, data: all } = await pixels(page, ".thumb canvas", 12 * layer + head);
  expect(all.length / width).toBe(2 * width + Math.round(width / 8));
  const strip = all.slice((width + 3) * width, (width + 4) * width).map(darkness);
  expect(Math.floor((strip.indexOf(Math.max(...strip)) * 7) / width)).toBe(2); // one back
  const data = all.slice(0, width * width);
  const below = data.filter((_, k) => Math.floor(k / width) > k % width).map(darkness);
  expect(Math.max(...below)).toBeGreaterThan(400);
  await thumb(page, layer, head).hover();
  await expect(readout(page)).toContainText(/previous \d+\s%/);
  const shown = /previous (\d+)/.exec((await readout(page).textContent())!)![1];
  expect(Math.abs(Number(shown) - 100 * value)).toBeLessThan(1.5);
});

test("similarities below 0 have colours of their own, and every bar says its scale and range", async ({
  watched: page,
  home,
  request,
}) => {
  // A head whose most negative similarity is its largest in size and not the only one, most others above 0.
  const { similarities } = await firstText(request, home, { outputs: ["similarities"], digits: 4 });
  const least = (map: number[][]): number => Math.min(...map.flat());
  const below = (map: number[][]): number => {
    const [all, range] = [map.flat(), -least(map)];
    const part = (is: (value: number) => boolean): number => all.filter(is).length / all.length;
    return Math.max(...all) < range && part((v) => v > range / 20) > 0.5 ? part((v) => v < -range / 4) : 0;
  };
  const [{ layer, head, value }] = ranked(similarities as number[][][][], below) as [Place];
  expect(value).toBeGreaterThan(0.01);
  await open(page, home, `view=head&layer=${layer}&head=${head}`);
  await expect(exactFigures(page)).toBeVisible();
  const bars = page.getByRole("figure").getByRole("img");
  await expect(bars.first()).toContainText(/square root, 0 to 1/);
  await expect(bars.nth(1)).toContainText(/square root, −[\d.]+ to [\d.]+/);
  const most = Number((await bars.nth(1).locator(".ticks .first").textContent())!.replace("−", "-"));
  const range = least(similarities[layer][head]);
  expect(Math.abs(most - range)).toBeLessThan(-0.01 * range); // the most negative sets the range
  // A token against the rest is negative: violet, a row and a column; the rest is amber.
  const { data } = await pixels(page, ".heatmap canvas", 2);
  const share = (sign: number): number =>
    data.filter((c) => sign * ((c & 255) - ((c >> 16) & 255)) > 40).length / data.length;
  expect(share(-1)).toBeGreaterThan(0.005);
  expect(share(1)).toBeGreaterThan(0.3);
  await page.getByRole("radio", { name: "Log" }).check();
  await expect(bars.nth(1)).toContainText("logarithmic, four decades");
  await page.getByRole("radio", { name: "Per row" }).check();
  await expect(bars.nth(1)).toContainText("± the row’s largest");
  for (const [name, fragment] of [
    ["Heads", "tint=high_pairs"],
    ["Text", "view=text&layer=1&head=4"],
    ["Compare", "view=compare&layer=1&head=4&layer2=7&head2=5"],
  ] as const) {
    await open(page, home, fragment);
    await expect(view(page, name).getByRole("img").first()).toBeVisible();
    for (const words of await page.locator(".colour-bar .words").allTextContents())
      expect(words, name).toMatch(/^(linear|square root|logarithmic)/);
  }
});

const LONG = Array.from({ length: 700 }, (_, n) => `word${n % 37}${n % 11 ? "" : "."}`).join(" ");

test("512 tokens: a thin line keeps its strength on the map, as on the thumbnail", { tag: "@slow" }, async ({
  watched: page,
  home,
  request,
}) => {
  await open(page, home, `view=head&layer=1&head=2&max=512&text=${encodeURIComponent(LONG)}`);
  await expect(exactFigures(page)).toBeVisible();
  await expect(page.locator(".map-note").first()).toContainText("Each pixel shows the strongest of its cells");
  const { attentions } = await (
    await request.post(`${home}analyze`, {
      data: { text: LONG, max_tokens: 512, layers: [1], heads: [2], outputs: ["attentions"] },
    })
  ).json();
  const rows = (attentions[0][0] as number[][]).map((row) => Math.max(...row));
  const top = Math.max(...rows);
  const { width, data } = await pixels(page, ".heatmap canvas");
  const margin = Math.round(Math.min(84, Math.max(48, width * 0.16)));
  const plot = width - margin - 6;
  const shown = rows.map((_, i) => {
    const y = margin + Math.floor(((i + 0.5) * plot) / 512);
    return Math.max(...data.slice(y * width + margin, y * width + margin + plot).map(darkness));
  });
  const full = Math.max(...shown);
  const strong = rows.flatMap((value, i) => (value > 0.8 * top ? [shown[i]!] : []));
  expect(strong.length).toBeGreaterThan(3);
  for (const dark of strong) expect(dark).toBeGreaterThan(0.75 * full);
});

test("512 tokens: little is fetched before anything is opened", { tag: "@slow" }, async ({ watched: page, home }) => {
  const requested: string[] = [];
  page.on("request", (r) => requested.push(r.postData() ?? ""));
  await open(page, home, `show=both&small=0&max=512&text=${encodeURIComponent(LONG)}`);
  await expect
    .poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length))
    .toBe(1);
  await settled(page);
  const bytes = await page.evaluate(() =>
    (performance.getEntriesByType("resource") as PerformanceResourceTiming[]).reduce((sum, entry) => sum + entry.decodedBodySize, 0),
  );
  expect(bytes).toBeGreaterThan(3e6); // 24 maps of 512 x 512 bytes are 6.3e6
  expect(bytes).toBeLessThan(20e6);
  expect(requested.some((body) => body.includes('"similarities"'))).toBe(false);
  // The labels' sample is another text.
  const maps = (body: string): boolean => body.includes('"attentions"') && body.includes(LONG.slice(0, 40));
  const layers = (): Set<string> =>
    new Set(requested.filter(maps).flatMap((body) => /"layers":\[([\d,]+)/.exec(body)![1]!.split(",")));
  expect(layers().has("11")).toBe(false);
  await thumbs(page).last().scrollIntoViewIfNeeded();
  await expect.poll(() => layers().has("11")).toBe(true);
});

test("a share says of how many pairs; heads of few pairs come last, either way", async ({ watched: page, home }) => {
  await open(page, home, "sort=repeated_share");
  const captions = async (): Promise<[number, number][]> =>
    (await thumbs(page).locator(".figure span").allTextContents())
      .filter((t) => t !== "–")
      .map((t) => {
        const [, share, count] = /([\d.]+)\s% of ([\d,]+)/.exec(t)!;
        return [Number(share), Number(count!.replace(",", ""))];
      });
  await expect(page.locator(".grid.sorted")).toBeVisible();
  const falling = (values: readonly [number, number][]): number[] => values.filter(([, n]) => n >= 10).map(([v]) => v);
  let all = await captions();
  expect(all[0]![1]).toBeGreaterThanOrEqual(10);
  expect(falling(all)).toEqual([...falling(all)].sort((a, b) => b - a));
  expect(all.slice(falling(all).length).every(([, n]) => n < 10)).toBe(true);
  await page.getByRole("button", { name: "largest first" }).click();
  await expect(page.getByRole("button", { name: "smallest first" })).toBeVisible();
  all = await captions();
  expect(falling(all)).toEqual([...falling(all)].sort((a, b) => a - b));
  expect(all[0]![1]).toBeGreaterThanOrEqual(10);
  await expect(page).toHaveURL(/down=0/);
});

test("the figures' table sorts by every column", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home);
  await page.getByText("All figures as a table").click();
  const heads = page.getByRole("table").getByRole("columnheader");
  await expect(heads).toHaveCount(20);
  for (const n of [2, 5, 9, 11]) {
    await heads.nth(n).getByRole("button").click();
    await expect(heads.nth(n)).toHaveAttribute("aria-sort", "descending");
    const values = (await page.locator(`.alternative tbody td:nth-child(${n + 1}):not(.muted)`).allTextContents())
      .filter((t) => t !== "–")
      .map((t) => parseFloat(t.replaceAll(",", "").replace("−", "-")));
    expect(values).toEqual([...values].sort((a, b) => b - a));
  }
  await heads.nth(11).getByRole("button").click();
  await expect(heads.nth(11)).toHaveAttribute("aria-sort", "ascending");
});

test("an empty text has no pairs, in every view", async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=4&text=");
  await expect(figure(page, "High pairs").getByRole("definition")).toHaveText("0");
  await page.keyboard.press("4");
  await expect(pairCount(page)).toContainText("0 of 0 high pairs");
});

test("the tour tells what this model shows", async ({ watched: page, home, request }) => {
  await open(page, home, "", true);
  await page.getByRole("button", { name: "Next", exact: true }).click();
  const tour = page.getByRole("dialog", { name: "Tour" });
  await expect(tour).toContainText("more than half of their attention on separators");
  await expect(tour).not.toContainText("paper");
  const text = await textBox(page).inputValue();
  const { summary } = await (
    await request.post(`${home}analyze`, { data: { text, layers: "all", outputs: ["summary"] } })
  ).json();
  const most = Math.max(...summary.flat().map((s: { separator_attention: number }) => s.separator_attention));
  await expect(tour).toContainText(`${(100 * most).toFixed(0)} %`);
});
