import { chromium } from "@playwright/test";
const [,, ...specs] = process.argv; // name|fragment|width|height|dark|js
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
for (const spec of specs) {
  const [name, fragment, width = "1280", height = "800", dark = "", js = ""] = spec.split("|");
  const context = await browser.newContext({ viewport: { width: +width, height: +height }, colorScheme: dark ? "dark" : "light" });
  const page = await context.newPage();
  page.on("pageerror", (e) => console.log(name, "ERROR", e.message));
  page.on("console", (m) => m.type() === "error" && console.log(name, "console", m.text()));
  await page.addInitScript(() => localStorage.setItem("headscope-hints-seen", "1"));
  await page.goto(`http://127.0.0.1:8391/#${fragment}`);
  await page.waitForLoadState("networkidle"); await page.waitForTimeout(1000);
  if (js) { await page.evaluate(js); await page.waitForTimeout(1500); }
  await page.screenshot({ path: `/tmp/shots/${name}.png` });
  await context.close();
}
await browser.close();
