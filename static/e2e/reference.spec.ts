// The page /docs: read by keyboard, without a script, a foreign request or anything that its policy refuses.
import { expect, findings, test } from "./viewer";

for (const colorScheme of ["light", "dark"] as const)
  test(`axe finds nothing serious or moderate on the page of the interface, ${colorScheme}`, { tag: "@slow" }, async ({ watched: page, home }) => {
    await page.emulateMedia({ colorScheme });
    await page.goto(`${home}docs`);
    for (const details of await page.locator("details").all()) await details.evaluate((one: HTMLDetailsElement) => (one.open = true));
    expect(await findings(page)).toEqual([]);
  });

test("the keyboard reaches an operation, its example and a type", async ({ watched: page, home }) => {
  await page.goto(`${home}docs`);
  const contents = page.getByRole("navigation", { name: "Contents" });
  await contents.getByRole("link", { name: "POST /analyze" }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#analyze$/);
  const section = page.locator("#analyze");
  await expect(section.getByRole("heading")).toBeInViewport();
  const request = section.locator("details").first();
  await page.keyboard.press("Tab"); // goes on behind the heading
  for (let n = 0; n < 100 && !(await request.locator("summary:focus").count()); n++) await page.keyboard.press("Tab");
  await expect(request.locator("summary")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(request.locator("pre").first()).toContainText("curl -s");
  await section.getByRole("link", { name: "AnalyzeRequest" }).first().press("Enter");
  await expect(page.locator("#AnalyzeRequest").getByRole("heading")).toBeInViewport();
});

test("without scripts the page of the interface is the same", async ({ browser, home }) => {
  const context = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 390, height: 800 } });
  const page = await context.newPage();
  await page.goto(`${home}docs`);
  await page.getByRole("link", { name: "GET /health" }).click();
  await expect(page.getByRole("heading", { name: "GET /health" })).toBeInViewport();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  await context.close();
});
