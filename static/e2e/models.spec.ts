// Models by name: fetched from a stand-in of the hub, removed; and a server that keeps its models.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, findings, open, test, textOptions } from "./viewer";

const HUB = `
import sys, time
from pathlib import Path
sys.path.insert(0, "../tests/api")
from hub import Hub
files = ("config.json", "vocab.txt", "tokenizer_config.json", "model.safetensors")
print(Hub({"org/small": {name: (Path("../model/mini") / name).read_bytes() for name in files}}).url, flush=True)
sys.stdin.read()
`;

const line = (child: ChildProcess): Promise<string> => new Promise((done) => child.stdout!.once("data", (text) => done(String(text).trim())));

test("a model is fetched by its name, chosen and removed", async ({ page }) => {
  const cache = mkdtempSync(join(tmpdir(), "headscope-hub-"));
  const hub = spawn(process.env.PYTHON ?? "python3", ["-c", HUB], { stdio: ["pipe", "pipe", "inherit"] });
  const environment = { ...process.env, HF_ENDPOINT: await line(hub), HF_HUB_CACHE: cache, HOME: cache };
  const server = spawn(process.env.HEADSCOPE ?? "../build/headscope", ["serve", "--listen", "127.0.0.1:0", "--pull"], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
  const home = `${/http:\S+/.exec(await line(server))![0]}/`;
  await open(page, home);
  await textOptions(page);
  await page.getByRole("button", { name: "More models…" }).click();
  const dialog = page.getByRole("dialog", { name: "Models" });
  await dialog.getByRole("textbox").fill("org/none");
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("status")).toContainText("org/none");
  await expect(dialog.locator(".error")).toContainText("Not fetched: org/none"); // spelled as it was
  await dialog.getByRole("textbox").fill("org/small");
  await dialog.getByRole("button", { name: "Fetch" }).click();
  await expect(dialog.getByText("small is served.")).toBeVisible();
  await dialog.getByRole("button", { name: "small", exact: true }).click();
  await expect(page).toHaveURL(/model=small/);
  expect(await findings(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Remove small" }).click();
  await expect(page).toHaveURL(/model=mini/);
  await page.keyboard.press("Escape");
  await expect(page.locator("#model option")).toHaveText(["mini"]);
  hub.kill();
  server.kill();
});

// Not watched: the browser logs the 501.
test("a server without --pull says how to start one", async ({ page, home }) => {
  await open(page, home);
  await textOptions(page);
  await page.getByRole("button", { name: "More models…" }).click();
  await expect(page.getByRole("dialog", { name: "Models" })).toContainText("headscope serve --pull");
  await expect(page.getByRole("button", { name: /^Remove/ })).toHaveCount(0);
});
