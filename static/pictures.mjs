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

const SHORT = "layer=1&head=7&text=The+town+had+one+harbour,+and+the+harbour+had+two+piers.";
const EXPERIMENT = "view=experiment&edits=z1.2_z1.6&text=The+old+bridge+%5BMASK%5D+closed+after+the+war.";
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

// fullPage: as long as the page is. part: a selector, for a picture of that alone, which is returned.
async function take(fragment, how) {
  const { path, part, width = 1280, height = 800, dark = false, fullPage = false, embed = "", fine = 1 } = how;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    deviceScaleFactor: fine,
  });
  const page = await context.newPage();
  await page.addInitScript(() => localStorage.setItem("headscope-tour-seen", "1"));
  await page.goto(`${home}${embed}#${fragment}`);
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(1500); // the worker is done with what is in sight
  const picture = await (part ? page.locator(part).screenshot({ timeout: 60_000 }) : page.screenshot({ path, fullPage }));
  await context.close();
  return picture;
}

// README's: the lines and maps of a head before the grid of all. Twice as fine as it is shown.
async function takeReadme(path, dark) {
  const part = (fragment, size, selector) => take(fragment, { ...size, part: selector, embed: "?embed", fine: 2, dark });
  const grid = await part(`view=overview&${SHORT}`, { width: 1000, height: 860 }, ".grid");
  const lines = await part(`view=text&beside=1.7&${SHORT}`, { width: 640 }, ".paper");
  const maps = await part(`view=head&sided=0&${SHORT}`, { width: 868, height: 1600 }, ".plates:visible");
  const context = await browser.newContext({ viewport: { width: 1120, height: 720 }, deviceScaleFactor: 2 });
  const page = await context.newPage();
  const image = (picture) => `<img src="data:image/png;base64,${picture.toString("base64")}">`;
  const [paper, ink, edge] = dark ? ["#111316", "#e8eaec", "#4a525b"] : ["#fbfbf9", "#16191d", "#9aa1a8"];
  await page.setContent(`<style>
    body { margin: 0; background: ${paper}; color: ${ink}; font: 600 17px/1.5 system-ui, sans-serif; }
    img { zoom: .5; } body > img { zoom: normal; height: 680px; margin: 20px; opacity: .65; }
    div { position: fixed; right: 20px; top: 140px; padding: 10px 16px 0; background: ${paper}; border: 1px solid ${edge}; border-radius: 8px; }
    p { margin: 0; }
    </style>${image(grid)}<div>Layer 1, head 7: each token looks at the one before<p>${image(lines)}</p>
    <p>${image(maps)}</p></div>`);
  await page.screenshot({ path });
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
  else {
    await take(EXPERIMENT, { path: "../docs/experiment.png" });
    await takeReadme("../docs/overview.png", false);
    await takeReadme("../docs/overview-dark.png", true);
  }
} finally {
  await browser.close();
  server.kill();
  rmSync(state, { recursive: true, force: true });
}
