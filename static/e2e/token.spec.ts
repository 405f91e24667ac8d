// A server that wants a token.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@playwright/test";
import { exactFigures, exportMenu, menuNote, open, runCard, thumbs, view } from "./viewer";

let server: ChildProcess;
let home = "";

test.beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "headscope-token-"));
  writeFileSync(join(folder, "token"), "open-sesame-1234\n");
  server = spawn(
    process.env.HEADSCOPE ?? "../build/headscope",
    ["serve", "--listen", "127.0.0.1:0", "--state", join(folder, "runs"), "--token-file", join(folder, "token")],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  home = await new Promise((ready) => {
    server.stdout!.on("data", (data) => {
      const address = /http:\/\/\S+/.exec(String(data))?.[0];
      if (address) ready(`${address.replace(/\/$/, "")}/`);
    });
  });
});
test.afterAll(() => void server.kill("SIGTERM"));

test("the page requests a token, a wrong one is called wrong, the right one opens every view", async ({ page }) => {
  await open(page, home, "view=head&layer=1&head=4");
  const form = page.getByRole("form", { name: "The server’s token" });
  await expect(form).toBeVisible();
  await expect(form.getByText("does not accept")).toBeHidden();
  await expect(page.getByText("Unauthorized")).toHaveCount(0);
  await expect(page.getByLabel("Token", { exact: true })).toBeFocused();
  await page.keyboard.type("sesam öffne");
  await page.keyboard.press("Enter");
  await expect(form).toContainText("The server does not accept this token.");
  await page.getByLabel("Token", { exact: true }).fill("open-sesame-1234");
  await page.keyboard.press("Enter");
  await expect(exactFigures(page)).toBeVisible();
  await expect(form).toBeHidden();
  await expect(page).toHaveURL(/view=head&layer=1&head=4|layer=1&head=4/);
  await page.keyboard.press("1");
  await expect(thumbs(page)).toHaveCount(144);
  expect(page.url()).not.toContain("sesam");
  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain("sesam");
});

test("corpus runs work with the token, their reports are saved with it", { tag: "@slow" }, async ({ page }) => {
  await page.addInitScript(() => sessionStorage.setItem("headscope-token", "open-sesame-1234"));
  await open(page, home, "view=corpus");
  await page
    .getByLabel("Drop a file")
    .setInputFiles({ name: "few.txt", mimeType: "text/plain", buffer: Buffer.from("A dog ran.\nA cat sat.") });
  await page.getByRole("button", { name: "Start the run" }).click();
  const card = runCard(page, "few.txt");
  await expect(card).toContainText("Done");
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    card.getByRole("button", { name: "Open the report" }).click(),
  ]);
  expect(readFileSync((await saved.path())!, "utf8")).toContain("headscope report");
  await page.keyboard.press("?");
  await expect(page.getByRole("button", { name: "Forget the token" })).toBeVisible();
});

test("the copied command takes the token from the environment", async ({ page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.addInitScript(() => sessionStorage.setItem("headscope-token", "open-sesame-1234"));
  await open(page, home, "view=head&layer=1&head=4");
  await expect(exactFigures(view(page, "Maps"))).toBeVisible();
  await exportMenu(page).click();
  await page.getByRole("button", { name: /^curl/ }).click();
  await expect(menuNote(page)).toContainText("Copied");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toContain("$HEADSCOPE_TOKEN");
  expect(copied).not.toContain("sesam");
});

test("a frame asks for no token", async ({ page }) => {
  await page.goto(`${home}?embed`);
  await expect(page.getByText("Open headscope in a tab of its own")).toBeVisible();
  await expect(page.getByLabel("Token", { exact: true })).toHaveCount(0);
});
