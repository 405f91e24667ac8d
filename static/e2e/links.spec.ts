// A link shows what was seen, or says what is not there.
import type { Page } from "@playwright/test";
import { drawn, exactFigures, expect, figures, LONG, maps, open, reload, test, view } from "./viewer";

const picture = (page: Page, nth = 0): Promise<string> =>
  page
    .locator(".heatmap canvas")
    .nth(2 * nth)
    .evaluate((c) => (c as HTMLCanvasElement).toDataURL());

test("a link carries the zoom", { tag: "@slow" }, async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=4");
  await expect(exactFigures(page)).toBeVisible();
  for (let n = 0; n < 3; n++) await page.getByRole("button", { name: "Zoom in" }).click();
  await drawn(page);
  const before = await picture(page);
  await reload(page);
  await expect(exactFigures(page)).toBeVisible();
  await expect(page).toHaveURL(/zoom=\d+\.\d+\.\d+/);
  await expect.poll(() => picture(page)).toBe(before);
  await page.getByRole("button", { name: "Whole map" }).click();
  await expect(page).not.toHaveURL(/zoom=/);
});

test("labels of a map are drawn anew once their typeface is there", async ({ watched: page, home }) => {
  let come = (): void => {};
  const there = new Promise<void>((done) => (come = done));
  await page.route(/woff2$/, async (route) => {
    await there;
    await route.continue();
  });
  const loaded = open(page, home, "view=head&layer=1&head=4");
  await expect(exactFigures(page)).toBeVisible();
  await drawn(page);
  const before = await picture(page);
  come();
  await loaded;
  await expect.poll(() => picture(page)).not.toBe(before);
});

test("a link carries a comparison's zoom and held cell", async ({ watched: page, home }) => {
  const shown = "view=compare&layer=1&head=4&layer2=2&head2=3&zoom=1000.2000.3000&pin=21.12&side=second";
  await open(page, home, `${LONG}&${shown}`);
  await expect(maps(page)).toHaveCount(3);
  await expect(figures(view(page, "Compare"))).toContainText("Correlation");
  await expect(page).toHaveURL(/zoom=1000.2000.3000/);
  const second = maps(page).nth(1);
  await expect
    .poll(() =>
      second.evaluate((node) => {
        const c = node as HTMLCanvasElement;
        return new Set(new Uint32Array(c.getContext("2d")!.getImageData(0, 0, c.width, c.height).data.buffer)).size;
      }),
    )
    .toBeGreaterThan(3); // the cross-hair of the held cell
});

test("an address naming a layer or head the model lacks says so", async ({ watched: page, home }) => {
  const refused: string[] = [];
  page.on("response", (response) => response.status() >= 400 && refused.push(response.url()));
  await open(page, home, "view=head&layer=40&head=4");
  await expect(page.getByText("The address names layer 40; mini has 12 layers")).toBeVisible();
  await page.getByRole("button", { name: "Head 3", exact: true }).click();
  await expect(page.getByText("The address names")).toBeHidden();
  await open(page, home, "view=compare&layer=1&head=4&layer2=2&head2=33");
  await expect(page.getByText("The address names head 33; mini has 12 heads")).toBeVisible();
  await open(page, home, "view=text&relation=to&beside=1.7-2.50");
  await expect(page.getByText("The address names head 50; mini has 12 heads")).toBeVisible();
  await expect(page.locator(".arc").first()).toBeAttached();
  expect(refused).toEqual([]);
});

test("a short link of version 1.0 says that it is ignored", async ({ watched: page, home }) => {
  await open(page, home, "link=0123456789abcdef");
  await expect(page.getByText("Ignored “link” in the link")).toBeVisible();
});

test("an address naming a run that is not there says so", async ({ watched: page, home }) => {
  await open(page, home, "view=corpus&run=nosuch");
  await expect(page.getByText("names the run nosuch, which is not among the finished ones")).toBeVisible();
});

test("the address of a comparison of runs names them; the report opens its own model", { tag: "@slow" }, async ({
  watched: page,
  home,
  request,
  context,
}) => {
  const texts = ["The dog saw the cat. It ran.", "A cat saw a dog. It sat.", "It was late. The dog ran."].join("\n");
  for (const model of ["twin", "mini"]) {
    const made = await request.post(`${home}corpora?model=${model}&name=links-${model}&max_tokens=64`, {
      headers: { "Content-Type": "text/plain" },
      data: texts,
    });
    const { id } = await made.json();
    await expect
      .poll(async () => (await (await request.get(`${home}corpora/${id}`)).json()).state)
      .toBe("done");
  }
  await open(page, home, "view=corpus");
  await expect(page).toHaveURL(/run=[\w-]+&run2=[\w-]+/);
  const { corpora } = await (await request.get(`${home}corpora`)).json();
  const { id } = corpora.find((run: { name: string }) => run.name === "links-twin");
  const report = await context.newPage();
  await report.goto(`${home}corpora/${id}/report?format=html`);
  const link = report.getByRole("link", { name: "Open in the viewer" }).first();
  await report.locator("#examples details summary").first().click();
  await expect(link).toHaveAttribute("href", /model=twin/);
  await expect(link).toHaveAttribute("href", /max=64/);
});
