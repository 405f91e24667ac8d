// Attention arrays of another program: opened by chooser and by drop, shown in Overview, Head and Text, refused in words.
import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { colours, complete, drawn, exactFigures, expect, figures, findings, open, readout, reload, saved, settled, test, textBox, textOptions, thumb, thumbs, tokens, view } from "./viewer";

const FOLDER = "../build/browser-test-arrays";
test.beforeAll(({}, { workerIndex }) => {
  execFileSync(process.env.PYTHON ?? "python3", ["e2e/arrays.py", `${FOLDER}-${workerIndex}`]);
});
const fileOf = (name: string): string => `${FOLDER}-${test.info().workerIndex}/${name}`;

const dialog = (page: Page) => page.getByRole("dialog", { name: "Open a file" });
async function choose(page: Page, name: string): Promise<void> {
  await drawn(page); // the dialog is there from the first frame on
  if (!(await dialog(page).isVisible())) await page.keyboard.press("o");
  await dialog(page).getByLabel("File").setInputFiles(fileOf(name));
}
// Opens the first page with all of its maps, and collects what is sent from then on for an analysis: nothing, since a file
// stays in the page.
async function withoutServer(page: Page, home: string): Promise<string[]> {
  await open(page, home);
  await complete(page);
  await settled(page);
  const sent: string[] = [];
  page.on("request", (request) => /analyze|tokenize/.test(request.url()) && sent.push(request.postData() ?? ""));
  return sent;
}

test("a file opens in Overview, Head and Text with its own numbers, and nothing is sent", async ({ watched: page, home }) => {
  const sent = await withoutServer(page, home);
  await textOptions(page);
  await page.getByRole("button", { name: "Open a file…" }).click();
  await choose(page, "other.npz");
  await expect(dialog(page)).toBeHidden();
  await expect(page.getByRole("region", { name: "Opened file" })).toContainText("other.npz");
  await expect(page.getByRole("region", { name: "Opened file" })).toContainText("3 × 4 heads, 11 tokens");
  await expect(thumbs(page)).toHaveCount(12);
  await expect.poll(() => colours(page, ".thumb canvas")).toBeGreaterThan(5);
  await thumb(page, 2, 3).click();
  await expect(view(page, "Maps")).toBeVisible();
  await expect(page.getByRole("figure")).toHaveCount(2);
  await expect(exactFigures(page)).toBeVisible();
  const heatmap = page.locator(".plate canvas[tabindex]").first();
  await heatmap.focus();
  for (const key of ["ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  await expect(readout(page)).toContainText("→ The 1");
  const shown = Number(/ A (\S+)/.exec((await readout(page).textContent())!.replace("−", "-"))![1]);
  const { bytes } = await saved(page, "CSV");
  const row = bytes.toString().split("\n")[2]!.split(",");
  expect(row.slice(0, 4)).toEqual(["0", "1", "[CLS]", "The"]);
  expect(Math.abs(Number(row[4]) - shown)).toBeLessThan(0.006);
  await page.keyboard.press("3");
  await expect(tokens(page)).toHaveCount(11);
  await expect(page.getByRole("listbox")).toContainText("The cat sat");
  await expect(page.locator(".arc.attention").first()).toBeAttached();
  expect(sent).toEqual([]);
});

test("without outputs or tokens it says what is missing, and offers attention alone", async ({ watched: page, home }) => {
  await open(page, home);
  await choose(page, "nameless.npz");
  await expect(page.getByRole("region", { name: "Opened file" })).toContainText("No similarities: the file has no “head_outputs”.");
  await expect(page.getByRole("region", { name: "Opened file" })).toContainText("No tokens");
  await expect(page.getByRole("region", { name: "Opened file" })).toContainText("causal");
  await expect(page.getByRole("group", { name: "Show" }).getByRole("radio")).toHaveCount(1);
  await thumbs(page).click();
  await expect(page.getByRole("figure")).toHaveCount(1);
  await expect(figures(page)).toContainText("Attention entropy");
  await expect(figures(page)).not.toContainText("High pairs");
  await page.keyboard.press("3");
  await expect(page.getByRole("radio", { name: "Similar to" })).toHaveCount(0);
  for (const [key, words] of [
    ["4", "no “head_outputs”"],
    ["5", "runs the model"],
    ["7", "runs the model"],
  ] as const) {
    await page.keyboard.press(key);
    await expect(page.locator(".view .notice")).toContainText(words);
  }
  await page.getByRole("button", { name: "Back to the model" }).click();
  await expect(textBox(page)).toBeVisible();
});

test("a dropped file opens, closes, and a reload says that it is gone", async ({ watched: page, home }) => {
  await open(page, home, "view=text&text=Kept+text.");
  const bytes = [...readFileSync(fileOf("packed.npz"))];
  const dropped = await page.evaluateHandle((data) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(data)], "packed.npz"));
    return transfer;
  }, bytes);
  for (const kind of ["dragover", "drop"]) await page.dispatchEvent(".stage", kind, { dataTransfer: dropped });
  await expect(page.getByRole("region", { name: "Opened file" })).toContainText("packed.npz");
  await expect(tokens(page)).toHaveCount(11);
  await expect(page).toHaveURL(/model=file%3Apacked\.npz/);
  await reload(page);
  await expect(page.locator(".view .notice")).toContainText("The file is not open");
  await choose(page, "packed.npz");
  await expect(tokens(page)).toHaveCount(11);
  await page.getByRole("button", { name: "Close the file" }).click();
  await expect(textBox(page)).toHaveValue("Kept text.");
});

test("a file that cannot be shown says why, and the page stays", async ({ watched: page, home }) => {
  await open(page, home);
  for (const [name, words] of [
    ["scores.npz", "Attention is from 0 to 1"],
    ["words.npz", "neither .npz nor .safetensors"],
    ["cut.npz", "damaged"],
  ] as const) {
    await choose(page, name);
    await expect(dialog(page).getByRole("alert")).toContainText(words);
  }
  await page.keyboard.press("Escape");
  await expect(textBox(page)).toBeVisible();
});

test("markup and control characters of a file are text in every view", async ({ watched: page, home }) => {
  const sent = await withoutServer(page, home);
  await choose(page, "hostile<b>.npz");
  await expect(dialog(page)).toBeHidden();
  const quoted = (await page.title()).match(/“.*”/)![0];
  expect(quoted).toContain("<img src=x onerror=");
  for (const key of ["1", "2", "3", "4"]) {
    await page.keyboard.press(key);
    await expect(page.locator("main img, main script, main b")).toHaveCount(0);
  }
  await page.keyboard.press("3");
  await expect(page.getByRole("listbox")).toContainText("<img src=x onerror=");
  expect(await page.title()).toContain(quoted); // beside the view and the head
  expect(await page.evaluate(() => Object.keys(Object.prototype))).toEqual([]);
  expect(sent).toEqual([]);
});

for (const [scheme, forced] of [
  ["light", "none"],
  ["dark", "none"],
  ["light", "active"],
] as const)
  test(`axe finds nothing in an opened file: ${scheme}, forced colours ${forced}`, { tag: "@slow" }, async ({ watched: page, home }) => {
    await page.emulateMedia({ colorScheme: scheme, forcedColors: forced, reducedMotion: "reduce" });
    await open(page, home);
    await drawn(page);
    await page.keyboard.press("o");
    await drawn(page);
    expect(await findings(page)).toEqual([]);
    await choose(page, "other.npz");
    for (const key of ["1", "2", "3", "7"]) {
      await page.keyboard.press(key);
      await settled(page);
      expect(await findings(page)).toEqual([]);
    }
  });

for (const [name, words, heads] of [["other.npz", "3 × 4 heads, 11 tokens", 12], ["cross.npz", "2 × 3 heads, 4 tokens of the target × 6 of the text", 6]] as const)
  test(`headscope view: the printed address shows the file, also after a reload: ${name}`, async ({ watched: page }) => {
    const binary = process.env.HEADSCOPE ?? "../build/headscope";
    const server = spawn(binary, ["view", "--listen", "127.0.0.1:0", fileOf(name)], { stdio: ["ignore", "pipe", "ignore"] });
    try {
      const address = await new Promise<string>((ready) => {
        let said = "";
        server.stdout.on("data", (data) => {
          said += data;
          const printed = /Open (\S+)\n/.exec(said)?.[1];
          if (printed) ready(printed);
        });
      });
      const other = await page.context().newPage(); // the watched one belongs to another server
      await other.goto(address);
      for (let visit = 0; visit < 2; visit++) {
        await expect(other.getByRole("region", { name: "Opened file" })).toContainText(words);
        await expect(thumbs(other)).toHaveCount(heads);
        await expect.poll(() => colours(other, ".thumb canvas")).toBeGreaterThan(5);
        await other.reload();
      }
    } finally {
      server.kill("SIGTERM");
    }
  });
