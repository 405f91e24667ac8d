// How fast it is: reported, not asserted, since it depends on the machine.
import { expect, open, test } from "./viewer";

const TEXT = Array.from(
  { length: 900 },
  (_, n) =>
    ["The", "river", "flows", "past", "old", "stone", "houses", "and", `bridge${n % 9}`][n % 9] +
    (n % 14 ? "" : "."),
).join(" ");

for (const tokens of [128, 512])
  test(`bars at ${tokens} tokens`, async ({ watched: page, home }) => {
    await open(page, home, `max=${tokens}&text=${encodeURIComponent(TEXT)}`);
    await expect
      .poll(() => page.evaluate(() => performance.getEntriesByName("thumbnails-visible").length))
      .toBeGreaterThan(0);
    const marks = await page.evaluate(() =>
      Object.fromEntries(performance.getEntriesByType("mark").map((m) => [m.name, m.startTime])),
    );
    const received = await page.evaluate(() =>
      performance
        .getEntriesByType("resource")
        .reduce((sum, entry) => sum + (entry as PerformanceResourceTiming).transferSize, 0),
    );
    const step = await sliderStep(page);
    const opening: number[] = [];
    for (const head of [1, 2, 3, 4, 5]) opening.push(await openHead(page, head));
    await page.keyboard.press("1");
    const frames = await scroll(page);
    const client = await page.context().newCDPSession(page);
    await client.send("HeapProfiler.collectGarbage");
    const heap = (await client.send("Runtime.getHeapUsage")) as { usedSize: number; backingStorageSize?: number };
    const ms = (value: number): string => `${value.toFixed(0)} ms`;
    console.log(
      `  ${tokens} tokens: figures to thumbnails in sight ${ms(marks["thumbnails-visible"]! - marks["overview-answered"]!)}, ` +
        `${(received / 1e6).toFixed(1)} MB until then; `+
        `another head ${ms(opening.sort((a, b) => a - b)[2]!)} (median of 5, slowest ${ms(opening[4]!)}); ` +
        `a step of the threshold ${ms(step)} (slowest of 10); scrolling: median frame ${frames.median.toFixed(1)} ms, longest ${ms(frames.longest)}; ` +
        `heap ${((heap.usedSize + (heap.backingStorageSize ?? 0)) / 1e6).toFixed(0)} MB`,
    );
  });

// The longest the main thread is held by a step of the slider, drawing included.
const sliderStep = (page: import("@playwright/test").Page): Promise<number> =>
  page.evaluate(async () => {
    const slider = document.querySelector<HTMLInputElement>('input[type="range"]')!;
    let longest = 0;
    for (let n = 0; n < 10; n++) {
      slider.value = String(0.35 + n / 100);
      const begin = performance.now();
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((frame) => requestAnimationFrame(frame));
      await new Promise((frame) => requestAnimationFrame(frame));
      longest = Math.max(longest, performance.now() - begin);
    }
    return longest;
  });

// From the click to the frame that shows the head.
const openHead = (page: import("@playwright/test").Page, head: number): Promise<number> =>
  page.evaluate(async (h) => {
    performance.clearMarks("head-drawn");
    const start = performance.now();
    location.hash = location.hash.replace(/&?(view|layer|head)=[^&]*/g, "") + `&view=head&layer=5&head=${h}`;
    while (!performance.getEntriesByName("head-drawn").length)
      await new Promise((frame) => requestAnimationFrame(frame));
    return performance.now() - start;
  }, head);

const scroll = (page: import("@playwright/test").Page): Promise<{ median: number; longest: number }> =>
  page.evaluate(async () => {
    const times: number[] = [];
    let last = await new Promise<number>((frame) => requestAnimationFrame(frame));
    for (let n = 0; n < 60; n++) {
      scrollBy(0, n < 30 ? 25 : -25);
      const now = await new Promise<number>((frame) => requestAnimationFrame(frame));
      times.push(now - last);
      last = now;
    }
    times.sort((a, b) => a - b);
    return { median: times[30]!, longest: times[59]! };
  });
