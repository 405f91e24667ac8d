// It works where people are: screen readers, phones, other scripts, other shapes of models.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { analysed, displayOptions, drawn, expect, exportMenu, figures, findings, LONG, open, readout, reload, settled, test, thumbs, view } from "./viewer";

for (const [name, width, fragment, act] of [
  ["sorted overview", 1280, "sort=repeated_share", ""],
  ["tinted overview with its table", 1280, "tint=high_pairs", "table"],
  ["phone with Export open", 390, "layer=1&head=4", "export"],
  ["head with held cell and table", 1280, "view=head&layer=1&head=4&pin=2.5&overlay=pairs", "table"],
  ["text with a chosen token", 390, "view=text&layer=1&head=4&sel=3&bands=1", ""],
  ["pairs", 390, "view=pairs&layer=1&head=4", ""],
  ["comparison of texts", 1280, "view=compare&against=text&text2=A+dog+ran.&layer=1&head=4", ""],
  ["wrong address", 1280, "view=head&layer=40", ""],
  ["lines of several heads", 1280, "view=text&layer=1&head=2&relation=to&beside=1.7&sel=5", ""],
  ["lines of several heads, dark", 390, "view=text&layer=1&head=2&relation=to&beside=1.7-2.6", "dark"],
  ["weighted head, centred in the residual space", 390, "view=head&weigh=1&space=residual&center=1&layer=1&head=4", ""],
  ["heads like one", 1280, "seek=like+7.5&text=The+cat+sat.+The+cat+ran.", ""],
  ["experiment", 1280, "view=experiment&edits=z1.7_x4.3.0.5&layer=5&head=3&lens=1&tone=prediction_kl&text=The+old+bridge+%5BMASK%5D+closed.", ""],
  ["dark experiment on a phone", 390, "view=experiment&edits=m1.7&at=3&lens=1&tone=logprob_change", "dark"],
  ["dark corpus on a phone", 390, "view=corpus", "dark"],
] as const)
  test(`axe finds nothing serious or moderate: ${name}`, { tag: "@slow" }, async ({ watched: page, home }) => {
    await page.setViewportSize({ width, height: 800 });
    // A colour half way to another is no finding.
    await page.emulateMedia({ colorScheme: act === "dark" ? "dark" : "light", reducedMotion: "reduce" });
    await open(page, home, fragment);
    await settled(page);
    if (act === "export") await exportMenu(page).click();
    if (act === "table") await page.getByText(/ as a table$/).click();
    await drawn(page);
    expect(await findings(page)).toEqual([]);
  });

test("axe finds nothing serious or moderate: in a frame", { tag: "@slow" }, async ({ watched: page, home }) => {
  for (const fragment of ["", "view=head&layer=1&head=4", "view=corpus"]) {
    await open(page, `${home}?embed`, fragment);
    await reload(page);
    await settled(page);
    expect(await findings(page)).toEqual([]);
  }
});

test("Escape releases the held cell", async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=4&pin=2.5");
  await expect(readout(page)).toContainText("→");
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/pin=/);
  await page.mouse.move(5, 400);
  await expect(readout(page)).toContainText("Point at a map");
});

test("all sections, and the parts of one, are in sight on a phone", async ({ watched: page, home }) => {
  await page.setViewportSize({ width: 390, height: 800 });
  await open(page, home, "view=experiment");
  const tabs = page.getByRole("navigation").getByRole("button");
  await expect(tabs).toHaveCount(4 + 3);
  for (const tab of await tabs.all()) await expect(tab).toBeInViewport({ ratio: 1 });
});

test("the first map is in sight on a phone, in every view that has maps", async ({ watched: page, home }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  for (const [name, map] of Object.entries({ overview: ".thumb", head: ".heatmap", compare: ".heatmap" })) {
    await open(page, home, `view=${name}&layer=1&head=4&layer2=2`);
    const first = page.locator(map).first();
    await expect(first).toBeVisible();
    await settled(page);
    const { y } = (await first.boundingBox())!;
    expect(y, name).toBeLessThan((844 * 2) / 3);
  }
});

test("no control lies beside a phone’s window, and no ? in a row of its own", async ({ watched: page, home }) => {
  const text = `text=${encodeURIComponent("He was born in [MASK] York.")}`;
  for (const width of [375, 320, 850]) {
    await page.setViewportSize({ width, height: 800 });
    for (const fragment of ["view=overview", "view=head&layer=1&head=4", `view=text&${text}&attribution=gradient`, "view=pairs", "view=compare", "view=experiment", `view=trace&${text}`]) {
      await open(page, home, fragment);
      await page.reload();
      await expect(page.locator(".stage .toolbar").first()).toBeVisible();
      await settled(page);
      expect(await page.evaluate(() => document.documentElement.scrollWidth), fragment).toBeLessThanOrEqual(width);
      const found = await page.locator(".stage .toolbar:visible").evaluateAll((all) => {
        const shown = (of: Iterable<Element>): DOMRect[] => [...of].map((one) => one.getBoundingClientRect()).filter((box) => box.width > 0);
        return all.map((bar) => {
          const lone = bar.querySelector(".ends > .what:first-child");
          const others = shown([...bar.children].filter((child) => !child.contains(lone)));
          const beside = !lone || others.some((box) => box.top < lone.getBoundingClientRect().bottom && box.bottom > lone.getBoundingClientRect().top);
          return [shown(bar.querySelectorAll("select, label, button:not(.strip-heads *)")).every((box) => box.right <= innerWidth), beside];
        });
      });
      expect(found.flat(), `${fragment} ${width}`).not.toContain(false);
    }
    expect((await page.getByLabel("Examples").boundingBox())!.width).toBeGreaterThan(100); // its name is whole
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await open(page, home, `view=experiment&${text}&tone=logprob_change`);
  const select = page.getByLabel("Heads coloured by");
  await expect(select.locator("option:checked")).toHaveText("Effect on log-probability");
  const [wide, natural] = await select.evaluate((one) => {
    const is = one.getBoundingClientRect().width;
    one.style.maxWidth = "none";
    return [is, one.getBoundingClientRect().width];
  });
  expect(wide).toBeGreaterThanOrEqual(natural!); // its longest name is whole
  await open(page, home, "view=overview&sort=repeated_share");
  const side = page.getByRole("rowheader", { name: "109–120" });
  expect((await side.boundingBox())!.height).toBeLessThan(24); // one line
});

test("the readout is whole on a phone", async ({ watched: page, home }) => {
  await page.setViewportSize({ width: 390, height: 800 });
  await open(page, home, "view=head&layer=1&head=4&pin=2.5");
  await expect(readout(page)).toContainText("sentence");
  const { inside, wide } = await readout(page).evaluate((line) => ({
    inside: line.scrollWidth <= line.clientWidth && line.scrollHeight <= line.parentElement!.clientHeight,
    wide: line.getBoundingClientRect().right,
  }));
  expect(inside).toBe(true);
  expect(wide).toBeLessThanOrEqual(390);
});

test("characters that turn the direction are shown, unknown tokens are marked", async ({ watched: page, home }) => {
  await open(page, home, `view=text&layer=1&head=4&text=${encodeURIComponent("safe\u202eelif\u2066 ok 𓀀 end")}`);
  await expect(page.getByRole("listbox")).toContainText("⟨RLO⟩");
  await expect(page.getByRole("listbox")).toContainText("⟨LRI⟩");
  expect(await page.getByRole("listbox").textContent()).not.toMatch(/[\u202e\u2066]/);
  await expect(page.locator(".token.unknown")).toHaveText("𓀀");
  await expect(analysed(page)).toContainText("1 unknown");
});

test("without JavaScript the page says what it needs", async ({ browser, home }) => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(home);
  const words = page.locator("noscript");
  expect(await words.evaluate((e) => (e as HTMLElement).innerText)).toContain("allow JavaScript");
  expect((await words.boundingBox())!.y).toBeLessThan(200);
  await context.close();
});

test("axes say which tokens they name, and their positions when asked", async ({ watched: page, home }) => {
  await open(page, home, `view=head&layer=1&head=4&${LONG}`);
  await expect(page.locator(".map-note").first()).toHaveText(/One token in \d is named\./);
  const map = (): Promise<string> =>
    page.locator(".heatmap canvas").first().evaluate((c) => (c as HTMLCanvasElement).toDataURL());
  await drawn(page);
  const before = await map();
  await displayOptions(page);
  await page.getByLabel("Positions beside tokens").check();
  await expect.poll(map).not.toBe(before);
  await expect(page).toHaveURL(/positions=1/);
});

test("the pictures that choose a head are of what the view shows", async ({ watched: page, home }) => {
  const shape = (): Promise<number[]> =>
    page.locator(".strip-heads canvas").first().evaluate((c) => {
      const canvas = c as HTMLCanvasElement;
      return [canvas.width, canvas.height];
    });
  const picture = (): Promise<string> =>
    page.locator(".strip-heads canvas").first().evaluate((c) => (c as HTMLCanvasElement).toDataURL());
  await open(page, home, "view=head&layer=1&head=4");
  await expect.poll(async () => (await shape())[1]! / (await shape())[0]!).toBe(2); // both, one above the other
  await open(page, home, "view=text&layer=1&head=4&relation=similar");
  await expect.poll(async () => (await shape())[1]! / (await shape())[0]!).toBe(1);
  await drawn(page);
  const similar = await picture();
  await page.getByRole("radio", { name: "Attends to" }).check();
  await expect.poll(picture).not.toBe(similar);
});

test("thumbnails of a model of 24 layers by 2 heads stay thumbnails", async ({ page }) => {
  const folder = join(mkdtempSync(join(tmpdir(), "headscope-deep-")), "model");
  const made = spawnSync(
    "/usr/bin/python3",
    ["-c", `import checkpoint; checkpoint.write_random(${JSON.stringify(folder)}, n_layers=24, n_heads=2)`],
    { cwd: "../tests/reference" },
  );
  test.skip(made.status !== 0, "needs the tests' Python");
  const server: ChildProcess = spawn(
    process.env.HEADSCOPE ?? "../build/headscope",
    ["serve", "--listen", "127.0.0.1:0", "--model", `deep=${folder}`],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  const home = await new Promise<string>((ready) => {
    server.stdout!.on("data", (data) => {
      const address = /http:\/\/\S+/.exec(String(data))?.[0];
      if (address) ready(`${address.replace(/\/$/, "")}/`);
    });
  });
  await open(page, home, "show=both&small=0&text=one+two+three");
  await expect(thumbs(page)).toHaveCount(48);
  const widths = await thumbs(page).evaluateAll((all) => all.map((t) => t.getBoundingClientRect().width));
  server.kill("SIGTERM");
  expect(Math.max(...widths)).toBeLessThanOrEqual(130);
  expect(Math.min(...widths)).toBeGreaterThan(40);
});

test("runs of one name carry their date; narrow windows hold the comparison", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  for (const text of ["A dog ran. It sat.", "A cat sat. It ran."]) {
    const made = await request.post(`${home}corpora?name=same-name&max_tokens=32`, {
      headers: { "Content-Type": "text/plain" },
      data: `${text}\n${text} Twice.`,
    });
    const { id } = await made.json();
    await expect
      .poll(async () => (await (await request.get(`${home}corpora/${id}`)).json()).state)
      .toBe("done");
  }
  for (const width of [700, 1000]) {
    await page.setViewportSize({ width, height: 800 });
    await open(page, home, "view=corpus");
    await expect(page.getByRole("heading", { name: /^same-name · 20\d\d-\d\d-\d\d \d\d:\d\d/ })).toHaveCount(2);
    await expect(view(page, "Corpus").getByRole("figure").first()).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    const main = await view(page, "Corpus").locator(".corpus-main").evaluate((e) => e.getBoundingClientRect().width);
    expect(main).toBeGreaterThan(600);
  }
});

test("a map that comes late has the keyboard's focus, when a head is opened and when the next is chosen", async ({ watched: page, home }) => {
  let come = (): void => {};
  let there = new Promise<void>((done) => (come = done));
  await page.route("**/analyze*", async (route) => {
    if (route.request().postData()!.includes('"weighted_norms"')) await there;
    await route.continue();
  });
  await open(page, home, "weigh=1"); // what thumbnails know stands in for plain maps
  const map = view(page, "Maps").getByRole("application", { name: "Attention map" });
  const facts = figures(view(page, "Maps"));
  const arrives = async (): Promise<void> => {
    await expect(view(page, "Maps")).toBeFocused();
    await expect(facts).toBeHidden();
    come();
    await expect(map).toBeFocused();
    there = new Promise<void>((done) => (come = done));
  };
  const thumb = thumbs(page).nth(2 * 12 + 3);
  await expect(thumb).toBeVisible(); // a hidden one takes no focus
  await thumb.focus();
  await page.keyboard.press("Enter");
  await arrives();
  await page.keyboard.press("]");
  await arrives();
  await page.keyboard.press("]");
  await expect(facts).toBeHidden();
  await page.getByRole("radio", { name: "Linear" }).focus(); // somebody goes on meanwhile
  come();
  await expect(facts).toBeVisible();
  await expect(page.getByRole("radio", { name: "Linear" })).toBeFocused();
});

test("a head opened by the keyboard has the focus; Escape and Back return it to its thumbnail", async ({ watched: page, home }) => {
  await open(page, home);
  const thumb = thumbs(page).nth(2 * 12 + 3);
  const map = view(page, "Maps").getByRole("application", { name: "Attention map" });
  await expect(thumb).toBeVisible();
  await thumb.focus();
  await page.keyboard.press("Enter");
  await expect(map).toBeFocused();
  await page.keyboard.press("ArrowRight");
  await expect(page).toHaveURL(/pin=/);
  await page.keyboard.press("Escape"); // lets the cell go
  await expect(page).not.toHaveURL(/pin=/);
  await expect(map).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(view(page, "Heads")).toBeVisible();
  await expect(thumb).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(map).toBeFocused();
  await page.goBack();
  await expect(thumb).toBeFocused();
  // By the mouse the view has it, not the map, which would take the wheel.
  await thumb.click();
  await expect(view(page, "Maps")).toBeFocused();
  await page.goBack();
  await expect(thumb).toBeFocused();
});
