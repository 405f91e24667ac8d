// In a notebook: every view in a frame of another page, of a given height, by its link.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FrameLocator, Page } from "@playwright/test";
import { expect, exportMenu, maps, menuNote, readout, runCard, test, thumbs } from "./viewer";

const VIEWS = {
  overview: ["Heads", ".thumb"],
  head: ["Maps", ".heatmap canvas"],
  text: ["Text", ".token"],
  pairs: ["Pairs", ".scroller tbody tr"],
  compare: ["Compare", ".heatmap canvas"],
  corpus: ["Corpus", ".corpus-main h2"],
} as const;

// A page of another origin that frames an address.
let framer: Server;
test.beforeAll(async () => {
  framer = createServer((incoming, answer) => {
    const src = new URL(incoming.url!, "http://x").searchParams.get("src") ?? "";
    answer.setHeader("Content-Type", "text/html; charset=utf-8");
    answer.end(`<!doctype html><title>A notebook</title><iframe src="${src.replaceAll("&", "&amp;")}" width="900" height="420"></iframe>`);
  });
  await new Promise<void>((ready) => framer.listen(0, "127.0.0.1", ready));
});
test.afterAll(() => framer.close());

async function frame(page: Page, src: string, host = "127.0.0.1"): Promise<FrameLocator> {
  const { port } = framer.address() as AddressInfo;
  await page.goto(`http://${host}:${port}/?src=${encodeURIComponent(src)}`);
  return page.frameLocator("iframe");
}

for (const [view, [name, shows]] of Object.entries(VIEWS))
  test(`${view} in a frame of another page: nothing around it`, { tag: ["head", "corpus"].includes(view) ? [] : "@slow" }, async ({ page, home }) => {
    const inside = await frame(page, `${home}?embed#view=${view}&layer=1&head=4`);
    await expect(inside.getByRole("region", { name, exact: true })).toBeVisible();
    await expect(inside.locator(shows).first()).toBeVisible();
    for (const chrome of [".top", ".panel", ".tour", ".run-form", ".tools"]) await expect(inside.locator(chrome)).not.toBeVisible();
    const { wide, high } = await inside.locator("html").evaluate((html) => ({
      wide: html.scrollWidth - html.clientWidth,
      high: document.querySelector(".readout")!.getBoundingClientRect().bottom - innerHeight,
    }));
    expect(wide).toBe(0);
    expect(high).toBeLessThanOrEqual(0);
    await expect(inside.getByRole("link", { name: "Open in headscope" })).toHaveAttribute("href", /^\.\/#/);
  });

test("a frame's view can be used, left and come back to", async ({ page, home }) => {
  const inside = await frame(page, `${home}?embed#text=A+dog+ran.`);
  await thumbs(inside).nth(12 + 7).click();
  await expect(inside.getByRole("region", { name: "Maps", exact: true })).toBeVisible();
  await maps(inside).last().hover();
  await expect(inside.locator(".readout .line")).toContainText("→");
  const [whole] = await Promise.all([
    page.context().waitForEvent("page"),
    inside.getByRole("link", { name: "Open in headscope" }).click(),
  ]);
  await expect(whole).toHaveURL(/\/#view=head&text=A\+dog\+ran\..*&layer=1&head=7/);
  await inside.getByRole("button", { name: "More" }).click();
  await inside.locator("#stage").getByText("Centre outputs").click();
  await expect(inside.getByText("O·O′ of centred outputs")).toBeVisible();
  await inside.getByRole("button", { name: "← Heads" }).click();
  await expect(inside.getByRole("region", { name: "Heads", exact: true })).toBeVisible();
  await expect(inside.locator("#stage").getByLabel("Centre outputs")).toBeChecked(); // "Find heads…" is open
});

test("the whole viewer is shown in no frame, and a view in none of a stranger's", async ({ page, home }) => {
  const refused: string[] = [];
  page.on("console", (message) => message.type() === "error" && refused.push(message.text()));
  await frame(page, home);
  await expect.poll(() => refused.join()).toMatch(/frame-ancestors|X-Frame-Options/i);
  refused.length = 0;
  await frame(page, `${home}?embed`, "stranger.localhost");
  await expect.poll(() => refused.join()).toMatch(/frame-ancestors/i);
});

test("a frame shows runs and changes none", async ({ page, home, request }) => {
  const made = await request.post(`${home}corpora?name=framed&max_tokens=16`, {
    headers: { "Content-Type": "text/plain" },
    data: "A dog ran.\nA cat sat.",
  });
  expect(made.status()).toBe(202);
  const inside = await frame(page, `${home}?embed#view=corpus`);
  await expect(runCard(inside, "framed")).toBeVisible();
  await expect(inside.getByRole("button", { name: /Delete|Cancel|Start/ })).toHaveCount(0);
});

test("the menu copies a frame that works", async ({ watched: page, home, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`${home}#view=head&layer=1&head=4&text=${encodeURIComponent('Say "a < b" & go.')}&pin=1.2`);
  await expect(readout(page)).toContainText("→");
  await exportMenu(page).click();
  await page.getByRole("button", { name: /^Frame/ }).click();
  await expect(menuNote(page)).toHaveText("Copied the frame");
  const markup = await page.evaluate(() => navigator.clipboard.readText());
  expect(markup).toMatch(/^<iframe src=".*\?embed#.*height="600"/);
  const notebook = await context.newPage();
  const inside = await notebook.evaluate((html) => {
    const made = new DOMParser().parseFromString(html, "text/html").querySelector("iframe")!;
    return [made.src, made.title];
  }, markup);
  expect(inside[0]).toContain("text=Say+%22a+%3C+b%22+%26+go.");
  expect(inside[1]).toContain('Say "a < b" & go.');
});
