// Takes pictures in Chromium. Those of the viewer come from a server of their own. Makes those of the documents into
// docs/, that of README light and dark, or every view at three widths, light and dark, into a folder. From a corpus
// report it takes the figures of docs/findings.md.
//   npm run pictures
//   npm run pictures -- FOLDER
//   npm run pictures -- RESULTS/report.html
import { chromium } from "@playwright/test";
import { executablePath } from "./chromium.mjs";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const SHORT = "view=overview&text=The+town+had+one+harbour,+and+the+harbour+had+two+piers.";
const EXPERIMENT = "view=experiment&edits=z1.2_z1.6&text=The+old+bridge+%5BMASK%5D+closed+after+the+war.";
// point: the head under the pointer, which the overview enlarges beside the grid.
const DOCS = {
  "overview.png": { fragment: SHORT, point: "1.7" },
  "overview-dark.png": { fragment: SHORT, point: "1.7", dark: true },
  "experiment.png": { fragment: EXPERIMENT },
};
const VIEWS = {
  overview: "",
  sorted: "sort=previous&down=1",
  head: "view=head&layer=7&head=5",
  text: "view=text&layer=1&head=7",
  pairs: "view=pairs&layer=7&head=5",
  compare: "view=compare&layer=1&head=4&layer2=7&head2=5",
  corpus: "view=corpus&runheads=1",
  experiment: EXPERIMENT,
  lens: `${EXPERIMENT}&lens=1`,
  missing: "view=head&layer=40&head=99",
  error: "model=none",
};
const WIDTHS = [1280, 1600, 390];
const FIGURES = { 2: 1320, 8: 632, 12: 1320, 13: 632 }; // of a report, and how wide a window shows each well

const [given] = process.argv.slice(2);
const report = given?.endsWith(".html") ? resolve(given) : "";
const folder = report ? "" : given;
const state = mkdtempSync(join(tmpdir(), "headscope-pictures-"));
const server = spawn(
  process.env.HEADSCOPE ?? "../build/headscope",
  ["serve", "--listen", "127.0.0.1:0", "--state", state, "--model", "mini=../model/mini"],
  { stdio: ["ignore", "pipe", "ignore"] },
);
const home = await new Promise((ready, fail) => {
  server.stdout.on("data", (said) => ready(`${/http:\/\/\S+/.exec(said)[0].replace(/\/$/, "")}/`));
  server.once("exit", (code) => fail(new Error(`headscope ended with ${code}`)));
});
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu"],
});

// fullPage: as long as the page is.
async function take(fragment, { path, point, width = 1280, height = 800, dark = false, fullPage = false }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light" });
  const page = await context.newPage();
  await page.addInitScript(() => localStorage.setItem("headscope-tour-seen", "1"));
  await page.goto(`${home}#${fragment}`);
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(1500); // the worker is done with what is in sight
  if (point) {
    await page.locator(`.thumb[data-head='${point}']`).hover();
    await page.locator(".enlarged").waitFor();
    await page.waitForTimeout(500); // its maps are drawn
  }
  await page.screenshot({ path, fullPage });
  await context.close();
}

async function takeAll() {
  mkdirSync(folder, { recursive: true });
  for (const name of ["first", "second"]) {
    const body = Array.from({ length: 30 }, (_, n) => `The dog ${n} saw the cat. The cat ran, and the ${name} dog ran.`).join("\n");
    await fetch(`${home}corpora?name=${name}`, { method: "POST", headers: { "Content-Type": "text/plain" }, body });
  }
  for (const [name, fragment] of Object.entries(VIEWS))
    for (const width of WIDTHS)
      for (const dark of [false, true])
        await take(fragment, { path: join(folder, `${name}-${width}-${dark ? "dark" : "light"}.png`), width, dark, fullPage: true });
}

async function takeReport() {
  const page = await browser.newPage({ colorScheme: "light" });
  await page.goto(`file://${report}`);
  await page.waitForLoadState("load");
  await page.evaluate(() => document.fonts.ready);
  await page.addStyleTag({ content: "figure .save { display: none }" });
  for (const [n, width] of Object.entries(FIGURES)) {
    await page.setViewportSize({ width, height: 1200 });
    await page.locator(`#figure-${n}`).screenshot({ path: `../docs/findings/figure-${n}.png` });
  }
}

try {
  if (report) await takeReport();
  else if (folder) await takeAll();
  else for (const [name, { fragment, ...how }] of Object.entries(DOCS)) await take(fragment, { path: `../docs/${name}`, ...how });
} finally {
  await browser.close();
  server.kill();
  rmSync(state, { recursive: true, force: true });
}
