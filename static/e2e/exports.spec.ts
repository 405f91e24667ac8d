// Saved files show the same as the screen.
import { execFileSync, spawnSync } from "node:child_process";
import type { Page } from "@playwright/test";
import { bodyRows, exactFigures, expect, exportMenu, figure, figures, headMap, menuNote, more, open, saved, settled, test, thumbs } from "./viewer";

const save = async (page: Page, name: string): Promise<Buffer> => (await saved(page, name)).bytes;
const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;
const TEXT = "text=The+cat+sat+on+the+mat.+The+dog+saw+the+cat.";

test("head: overlay and held cell are in the picture as on screen, only finer", async ({ watched: page, home }) => {
  await open(page, home, `view=head&layer=1&head=4&${TEXT}`);
  await expect(exactFigures(page)).toBeVisible();
  // Both canvases of both maps: the map below its cross-hair.
  const maps = async (): Promise<string[]> => {
    await settled(page);
    const text = (await save(page, "SVG")).toString();
    expect(text).toContain(">square root, ");
    const images = [...text.matchAll(/href="(data:image\/png[^"]*)"/g)].map((m) => m[1]!);
    expect(images).toHaveLength(4);
    return images;
  };
  const plain = await maps();
  const [wide, shown] = await page.evaluate(async (address) => {
    const image = new Image();
    image.src = address!;
    await image.decode();
    return [image.naturalWidth, document.querySelector<HTMLCanvasElement>(".heatmap canvas")!.width];
  }, plain[0]);
  expect(wide).toBe(3 * shown!);
  await page.getByLabel("Overlay").selectOption("mask");
  await more(page);
  await page.locator(".toolbar").getByLabel("Sentences").check();
  const masked = await maps();
  expect(masked.map((image, n) => image === plain[n])).toEqual([false, true, false, true]);
  await page.getByLabel("Overlay").selectOption("pairs");
  await expect(page).toHaveURL(/overlay=pairs/);
  const pairs = await maps();
  expect(pairs[2]).not.toBe(masked[2]);
  await page.getByRole("application").nth(0).click({ position: { x: 200, y: 200 } });
  await expect(page).toHaveURL(/pin=/);
  await page.mouse.move(0, 0);
  expect((await maps()).map((image, n) => image === pairs[n])).toEqual([true, false, true, false]);
});

const VIEWS = ["", "view=head&layer=1&head=4&scale=log", "view=experiment&edits=z1.2&at=2"];
for (const fragment of VIEWS)
  test(`figures to print come from the server, with labels as text: ${fragment || "overview"}`, { tag: fragment.includes("head=4") ? [] : "@slow" }, async ({ watched: page, home }) => {
    await open(page, home, `${fragment}&${TEXT}`);
    await settled(page);
    expect((await save(page, "Figure PDF")).subarray(0, 5).toString()).toBe("%PDF-");
    const png = await save(page, "Figure PNG");
    expect(png.subarray(0, 8).toString("latin1")).toBe("\x89PNG\r\n\x1a\n");
    expect(png.readUInt32BE(16)).toBe(Math.round((170 / 25.4) * 300)); // its width: 300 pixels an inch
    const figure = (await save(page, "Figure SVG")).toString();
    expect(figure.slice(0, 200)).toContain('width="170.00mm"');
    if (fragment.includes("experiment")) expect(figure).toContain(">6</text>"); // ranks, each with its token
    if (!fragment.includes("head=4")) return;
    expect(count(figure, />cat<\/text>/g)).toEqual(8); // two cats, two maps, both ways
    expect(figure).toMatch(/>attention, log, four decades, 0 to [\d.]+<\/text>/); // the scale on screen
    await more(page);
    await page.getByLabel("Weight by norms").check();
    await expect(exactFigures(page)).toBeVisible();
    await exportMenu(page).click();
    await expect(page.getByRole("button", { name: /^CSV/ })).toBeVisible();
    await expect(page.getByRole("button", { name: /^Figure/ })).toHaveCount(0); // of other maps than those on screen
  });

test("a server that cannot make pixels of figures says so in the menu", async ({ page, home }) => {
  const detail = "This needs rsvg-convert: install Debian's packages librsvg2-bin, or take svg.";
  await page.route(/format=png$/, (route) =>
    route.fulfill({ status: 501, contentType: "application/problem+json", body: JSON.stringify({ title: "Not Implemented", detail }) }),
  );
  await open(page, home, `view=head&layer=1&head=4&${TEXT}`);
  await expect(exactFigures(page)).toBeVisible();
  await exportMenu(page).click();
  await page.getByRole("button", { name: /^Figure PNG/ }).click();
  await expect(menuNote(page)).toHaveText(detail);
});

for (const fragment of ["", "view=head&layer=1&head=4", "view=text&layer=1&head=4&arcs=1", "view=trace"])
  test(`other programs read the picture: ${fragment || "overview"}`, { tag: fragment ? "@slow" : [] }, async ({ watched: page, home }) => {
    test.skip(spawnSync("rsvg-convert", ["--version"]).status !== 0, "rsvg-convert is not installed");
    await open(page, home, `${fragment}&${TEXT}`);
    await settled(page);
    const input = await save(page, "SVG");
    const png = execFileSync("rsvg-convert", ["--width", "400"], { input });
    const found = await page.evaluate(async (data) => {
      const image = new Image();
      image.src = `data:image/png;base64,${data}`;
      await image.decode();
      const g = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
      g.drawImage(image, 0, 0);
      return new Set(new Uint32Array(g.getImageData(0, 0, image.width, image.height).data.buffer)).size;
    }, png.toString("base64"));
    expect(found).toBeGreaterThan(100); // colours
    expect(input.toString()).not.toMatch(/(oklch|color|var)\(/);
  });

type Box = [left: number, top: number, right: number, bottom: number, words: string];

// Pairs of texts of which each covers a good part of the other, upright and across. Boxes of lines may touch.
const covered = (boxes: readonly Box[]): string[] =>
  boxes.flatMap(([left, top, right, bottom, words], n) =>
    boxes.slice(0, n).flatMap(([l, t, r, b, other]) => {
      const [across, down] = [Math.min(right, r) - Math.max(left, l), Math.min(bottom, b) - Math.max(top, t)];
      const most = [0.3 * Math.min(right - left, r - l), 0.3 * Math.min(bottom - top, b - t)];
      return across > most[0]! && down > most[1]! ? [`${words} on ${other}`] : [];
    }),
  );

// Words of a picture as rsvg-convert places them; null without the programs.
function printed(picture: string): Box[] | null {
  if (["rsvg-convert", "pdftotext"].some((program) => spawnSync(program, ["-v"]).error)) return null; // not installed
  const pdf = execFileSync("rsvg-convert", ["--format", "pdf"], { input: picture });
  const read = execFileSync("pdftotext", ["-bbox", "-", "-"], { input: pdf }).toString();
  const found = [...read.matchAll(/<word xMin="(.*?)" yMin="(.*?)" xMax="(.*?)" yMax="(.*?)">(.*?)<\/word>/g)];
  expect(found.length).toBeGreaterThan(30);
  return found.map(([, l, t, r, b, words]): Box => [Number(l), Number(t), Number(r), Number(b), words!]);
}

for (const fragment of ["view=head&layer=1&head=4", "view=pairs&layer=1&head=4"])
  test(`labels are text, and none covers another without our font: ${fragment}`, { tag: fragment.includes("pairs") ? "@slow" : [] }, async ({ watched: page, home, context }) => {
    await open(page, home, `${fragment}&${TEXT}`);
    await settled(page);
    if (fragment.includes("pairs")) await expect(page.getByRole("img", { name: "Histogram of distances" })).toBeVisible();
    else await expect(exactFigures(page)).toBeVisible();
    const shown = (): Promise<string[]> =>
      page.evaluate(() => [...document.querySelectorAll<HTMLCanvasElement>("#stage canvas")].map((c) => c.toDataURL()));
    const before = await shown();
    const picture = (await save(page, "SVG")).toString();
    expect(await shown()).toEqual(before); // labels are painted again
    if (fragment.includes("view=head"))
      expect(count(picture, />cat<\/text>/g)).toBe(12); // two cats: in two maps, both ways, and in both columns of lines
    else expect(count(picture, /<text [^>]*text-anchor="(end|middle)"[^>]*>[0-9,]+<\/text>/g)).toBeGreaterThan(4); // of both axes
    const alone = await context.newPage(); // has no fonts of the viewer's page
    await alone.goto(`data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture)}`);
    const boxes = await alone.evaluate(() => {
      const root = document.documentElement as unknown as SVGSVGElement;
      return [...document.querySelectorAll("text")].flatMap((text): Box[] => {
        const { left, top, right, bottom } = text.getBoundingClientRect();
        const part = text.closest<SVGSVGElement>("svg svg[viewBox]"); // scrolls on screen, and is cut off
        const end = part ? part.y.baseVal.value + part.height.baseVal.value - root.viewBox.baseVal.y : Infinity;
        return bottom > end ? [] : [[left, top, right, bottom, text.textContent]];
      });
    });
    expect(boxes.length).toBeGreaterThan(30);
    expect(covered(boxes)).toEqual([]);
    await alone.close();
    expect(covered(printed(picture) ?? [])).toEqual([]);
  });

test("overview: the order on screen, in picture and table", async ({ watched: page, home }) => {
  await open(page, home, `sort=attention_entropy&down=0&${TEXT}`);
  await expect(page.locator(".grid.sorted")).toBeVisible();
  await expect.poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length)).toBe(1);
  const order = await thumbs(page).locator("b").allTextContents();
  const csv = (await save(page, "CSV")).toString().split("\r\n").slice(1, 145);
  expect(csv.map((line) => line.split(",").slice(0, 2).join("·"))).toEqual(order);
  const picture = (await save(page, "SVG")).toString();
  expect([...picture.matchAll(/>(\d+·\d+)<\/text>/g)].map((m) => m[1])).toEqual(order);
  expect(count(picture, /<image/g)).toBe(144);
  expect(picture).toContain("Attention entropy");
});

test("text and pairs: legend, bands and histogram are in the picture", async ({ watched: page, home }) => {
  await open(page, home, `view=text&layer=1&head=4&relation=similar&bands=1&${TEXT}`);
  await expect(page.locator(".segments")).toBeVisible();
  await expect(page.locator(".arcs rect").first()).toBeAttached();
  const bands = await page.locator(".arcs rect").count();
  const text = (await save(page, "SVG")).toString();
  expect(text).toContain(">Similar to</text>");
  expect(text).toContain(">linear, ");
  const drawing = /<svg [^>]*overflow="visible".*?<\/svg>/s.exec(text)![0];
  expect(count(drawing, /<rect /g)).toBe(bands);
  await page.keyboard.press("4");
  await expect(page.getByRole("img", { name: "Histogram of distances" })).toBeVisible();
  const pairs = (await save(page, "SVG")).toString();
  expect(pairs).toContain(">Distances</text>");
  expect(pairs).toContain(">Distance in tokens</text>");
  expect(pairs).toMatch(/<polyline [^>]*stroke-dasharray=/);
  expect(count(pairs, /<image/g)).toBe(0);
});

test("frames are in the picture, and no word covers another", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, "view=experiment&lens=1&text=The+old+bridge+%5BMASK%5D+closed+after+the+war.");
  const answered = page.locator(".lens-table .answered");
  await expect(answered.last()).toBeVisible();
  const lens = (await save(page, "SVG")).toString();
  expect(count(lens, /<rect [^>]*fill="none" stroke-width="2" stroke=/g)).toBeGreaterThanOrEqual(await answered.count());
  // Without a face as narrow as ours there is no space for all words.
  const narrow = spawnSync("fc-match", ["DejaVu Sans Condensed"]).stdout?.toString().includes("Condensed");
  expect(covered((narrow && printed(lens)) || [])).toEqual([]);
});

test("arrays for NumPy: floats, negatives kept; both sides of a comparison", async ({ watched: page, home }) => {
  await open(page, home, `${TEXT}&tau=0.5`);
  await expect(thumbs(page)).toHaveCount(144);
  const requested = page.waitForRequest((r) => r.url().endsWith("format=npz"));
  await save(page, "npz");
  const body = (await requested).postDataJSON();
  expect(body).toMatchObject({ dtype: "f4", layers: "all", threshold: 0.5 });
  expect(body.normalize).toBeUndefined();
  expect(body.outputs).toEqual(["attentions", "similarities", "summary"]);
  await open(page, home, `view=compare&layer=1&head=4&layer2=7&head2=5&${TEXT}`);
  await expect(figures(page)).toContainText("Correlation");
  const both = (await save(page, "npz")).toString("latin1");
  for (const name of ["first_similarities.npy", "second_similarities.npy", "first_tokens.npy", "second_request.npy"])
    expect(both).toContain(name);
});

test("the maps of all heads are in the picture, in a table and in the arrays", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, `view=head&layer=1&head=4&pin=2.8&ties=1&${TEXT}`);
  await expect.poll(() => headMap(page).getByRole("cell").allTextContents()).toHaveLength(144);
  await expect(page.locator(".head-map td", { hasText: "–" })).toHaveCount(0);
  const cells = await headMap(page).getByRole("cell").allTextContents();
  const written = await page.locator(".head-map .ranked b").first().textContent();
  const picture = (await save(page, "SVG")).toString();
  expect(picture).toContain("layers down, heads across");
  expect(picture).toContain(`>${written}</text>`);
  const table = (await save(page, "CSV of heads")).toString().trim().split("\r\n");
  expect(table[0]).toBe("layer,head,attention_to");
  expect(table).toHaveLength(145);
  table.slice(1).forEach((row, i) => {
    const value = Number(row.split(",")[2]);
    const [, sign, number] = /^([<≈]?) ?(.*)$/.exec(cells[i]!.replaceAll("−", "-"))!;
    // A cell shows three digits, or two of a power of ten; one of what half precision hardly has.
    if (sign === "<") expect(value).toBeLessThan(Number(number));
    else expect(Math.abs(Number(number) - value)).toBeLessThanOrEqual((sign ? 0.51 : 0.051) * value);
  });
  const arrays = (await save(page, "npz")).toString("latin1");
  for (const name of ["attention_to.npy", "similarities.npy", "tokens.npy"]) expect(arrays).toContain(name);
  await open(page, home, `view=compare&against=off&layer=9&head=3&layer2=5&head2=2&changes=1&${TEXT}`);
  await expect(bodyRows(headMap(page))).toHaveCount(12);
  expect((await save(page, "SVG")).toString()).toContain("Change of similarity of each head");
  expect((await save(page, "npz")).toString("latin1")).toContain("similarity_change.npy");
});

test("the copied request gives the figures seen", async ({ watched: page, home, context, request }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, home, `view=head&layer=1&head=4&tau=0.45&${TEXT}`);
  await expect(exactFigures(page)).toBeVisible();
  await expect(page).toHaveURL(/tau=0.45/);
  const seen = await figure(page, "High pairs").getByRole("definition").textContent();
  await exportMenu(page).click();
  await page.getByRole("button", { name: /^curl/ }).click();
  await expect(menuNote(page)).toContainText("Copied");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const body = JSON.parse(/-d '(.*)' -o/s.exec(copied)![1]!);
  const answer = await (await request.post(`${home}analyze`, { data: body })).json();
  expect(String(answer.summary[0][0].high_pairs)).toBe(seen);
});

test("a menu that is opened before the answer is filled by it", async ({ watched: page, home }) => {
  let answer = (): void => {};
  const menu = page.getByRole("banner").locator(".menu");
  await page.route("**/analyze", async (route) => {
    await new Promise<void>((done) => (answer = done));
    await route.continue();
  });
  const requested = page.waitForRequest("**/analyze");
  await open(page, home, `view=head&layer=1&head=4&${TEXT}`);
  await requested;
  await menu.locator("summary").click();
  await expect(menu.getByRole("status")).toHaveText("There is nothing to save yet.");
  answer();
  await expect(menu.getByRole("button", { name: /^SVG/ })).toBeVisible();
  await expect(menu).not.toContainText("nothing to save");
});
