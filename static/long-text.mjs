// Measures the view Text with a long text in Chromium: how soon it opens, how long scrolling blocks, and memory. Also
// the CPU time of the main thread for pointing at a token and for a step of the wheel.
//   node long-text.mjs URL_OF_A_SERVER TEXT_FILE [PICTURE.png] [FRAGMENT, such as "model=NAME&max=2048"]
import { readFileSync } from "node:fs";
import { chromium } from "@playwright/test";
import { executablePath } from "./chromium.mjs";

const [home, file, picture, fragment = "max=8192&relation=similar&arcs=0"] = process.argv.slice(2);
const text = readFileSync(file, "utf8");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
page.on("pageerror", (error) => console.log(`error: ${error.message}`));
await page.addInitScript(() => {
  localStorage.setItem("headscope-tour-seen", "1");
  performance.setResourceTimingBufferSize(10_000);
  window.blocked = [];
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) window.blocked.push([startTime, duration]);
  }).observe({ type: "longtask", buffered: true });
});

// The memory of all processes of the browser, as far as they do not share it, in MB.
async function memory() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const of = {};
  for (const { id, type } of processInfo) {
    const [, kilobytes] = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, "utf8")) ?? [0, 0];
    of[type] = (of[type] ?? 0) + Math.round(kilobytes / 1000);
  }
  return { megabytes: Object.values(of).reduce((sum, one) => sum + one, 0), ...of };
}

// The longest task since the last call, and how many took more than 50 ms.
const blocked = () =>
  page.evaluate(() => {
    const tasks = window.blocked.splice(0).map(([, duration]) => Math.round(duration));
    return { longest: Math.max(0, ...tasks), tasks: tasks.length };
  });

const tell = async (name, more = {}) => console.log(JSON.stringify({ name, ...more, ...(await blocked()), ...(await memory()) }));
const waitFor = (selector) => page.waitForSelector(selector, { timeout: 600_000 });

await page.goto(`${home}#view=text&${fragment}&text=${encodeURIComponent(text)}`);
await waitFor(".token");
const opened = await page.evaluate(() => {
  const ends = performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/analyze"));
  return Math.round(performance.now() - Math.max(...ends.map(({ responseEnd }) => responseEnd)));
});
await tell("opened", { milliseconds: opened, tokens: await page.locator("[role=option]").first().getAttribute("aria-setsize") });

// Scrolls through all of it by a wheel, a quarter of a window at a time.
const scroll = async (name) => {
  await page.waitForLoadState("networkidle");
  await page.mouse.move(600, 500);
  const frames = page.evaluate(
    () =>
      new Promise((done) => {
        let [before, longest] = [performance.now(), 0];
        const step = (now) => {
          longest = Math.max(longest, now - before);
          before = now;
          if (window.scrolled) done(Math.round(longest));
          else requestAnimationFrame(step);
        };
        window.scrolled = false;
        requestAnimationFrame(step);
      }),
  );
  const steps = await page.evaluate(() => Math.ceil(document.documentElement.scrollHeight / 200));
  for (let k = 0; k < steps; k++) await page.mouse.wheel(0, 200);
  await page.evaluate(() => void (window.scrolled = true));
  await tell(name, { steps, frame: await frames });
  await page.evaluate(() => scrollTo(0, 0));
};

// The main thread's CPU time of each step, from Chromium's trace. Other programs add to the clock, hardly to this.
async function traced(name, steps, step) {
  const rest = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150))));
  const mark = (end) => page.evaluate((at) => void performance.mark(at), end);
  await browser.startTracing(page, { categories: ["blink.user_timing", "disabled-by-default-devtools.timeline"] });
  for (let k = 0; k < steps; k++) {
    await mark("step-begin");
    await step(k);
    await rest();
    await mark("step-end");
  }
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const named = (of) => traceEvents.filter((e) => e.name === of).sort((a, b) => a.ts - b.ts);
  const [begins, ends] = [named("step-begin"), named("step-end")];
  const tasks = named("RunTask").filter(({ pid, tid }) => pid === begins[0].pid && tid === begins[0].tid);
  const costs = begins
    .map(({ ts }, k) => tasks.filter((e) => e.ts >= ts && e.ts < ends[k].ts).reduce((sum, e) => sum + (e.tdur ?? 0) / 1000, 0))
    .sort((a, b) => a - b);
  const at = (share) => Number(costs[Math.ceil(share * costs.length) - 1].toFixed(1));
  console.log(JSON.stringify({ name, milliseconds: { median: at(0.5), p95: at(0.95), most: at(1) } }));
}
const places = await page.evaluate(() =>
  [...document.querySelectorAll("[data-t]")]
    .map((token) => token.getClientRects()[0])
    .map(({ left, right, top, bottom }) => [(left + right) / 2, (top + bottom) / 2])
    .filter(([, y]) => y > 60 && y < innerHeight - 60),
);
await traced("pointed at a token", 40, (k) => page.mouse.move(...places[(7 * k) % places.length]));
await traced("a step of the wheel", 40, () => page.mouse.wheel(0, 100));
await page.evaluate(() => scrollTo(0, 0));
await scroll("scrolled at once");
await scroll("scrolled");
await waitFor('[data-t="40"]');
await page.evaluate(() => document.querySelector('[data-t="40"]').click());
await waitFor(".lists ol");
await tell("token chosen");
if (picture) await page.screenshot({ path: picture });
await page.getByLabel("Lines", { exact: true }).check();
await page.getByRole("radio", { name: "Similar to" }).check();
await scroll("scrolled with lines");
await page.keyboard.press("Escape");
await page.evaluate(() => document.querySelector('[data-t="40"]').focus());
await page.keyboard.press("Escape");
await waitFor(".arcs path");
if (picture) await page.screenshot({ path: picture.replace(".png", "-pairs.png") });
await tell("pairs drawn");
await page.keyboard.press("End");
const last = await page.evaluate(() => document.activeElement?.getAttribute("data-t"));
await tell("End", { last });
if (picture) await page.screenshot({ path: picture.replace(".png", "-end.png") });
await browser.close();
