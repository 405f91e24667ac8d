// A server whose numbers are rounded says so beside the model's name.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, modelBox, open, runCard, test, view } from "./viewer";

// Its address, or why it ended: not every CPU has the instructions.
const serve = (precision: string): Promise<{ server: ChildProcess; home: string; refusal: string }> =>
  new Promise((done) => {
    const state = mkdtempSync(join(tmpdir(), "headscope-precision-"));
    const server = spawn(
      process.env.HEADSCOPE ?? "../build/headscope",
      ["serve", "--listen", "127.0.0.1:0", "--state", state, "--precision", precision],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    let said = "";
    server.stderr!.on("data", (data) => (said += data));
    server.stdout!.on("data", (data) => {
      const address = /http:\/\/\S+/.exec(String(data))?.[0];
      if (address) done({ server, home: `${address.replace(/\/$/, "")}/`, refusal: "" });
    });
    server.once("exit", () => done({ server, home: "", refusal: said.trim() || "the server ended" }));
  });

const send = async (page: Page, home: string): Promise<void> => {
  const address = `${home}corpora?layers=0&name=a-run-to-tell-its-precision`;
  const sent = await page.request.post(address, { data: "The dog saw the cat.", headers: { "Content-Type": "text/plain" } });
  expect(sent.status()).toBe(202);
};

const LACKING = /instruction|AVX|VNNI|CPU/i;

for (const [precision, means] of [
  ["bf16", /bfloat16.*figures should be computed in fp32/s],
  ["int8", /Good for exploring, not for figures/],
] as const)
  test(`${precision} is said beside the model's name, with what it means`, { tag: precision === "int8" ? "@slow" : [] }, async ({ page }) => {
    const { server, home, refusal } = await serve(precision);
    try {
      if (!home) expect(refusal).toMatch(LACKING);
      test.skip(!home, refusal);
      await send(page, home);
      await open(page, home, "view=head&layer=7&head=5");
      const badge = page.getByRole("note");
      await expect(badge).toHaveText(precision);
      await expect(badge).toHaveAttribute("title", means);
      await expect(badge).toHaveAccessibleName(means);
      const [name, field] = [(await badge.boundingBox())!, (await modelBox(page).boundingBox())!];
      expect(field.y - name.y).toBeLessThan(24);
      await page.keyboard.press("8");
      await expect(view(page, "Corpus").getByRole("form", { name: "New run" }).getByRole("note")).toHaveText(precision);
      const card = runCard(view(page, "Corpus"), "Done");
      await expect(card.getByRole("note")).toHaveText(precision);
      await expect(card.getByRole("note")).toHaveAttribute("title", means);
      await page.setViewportSize({ width: 390, height: 800 });
      await open(page, home, "view=text");
      await expect(view(page, "Text")).toBeVisible();
      await expect(page.getByRole("note")).toHaveText(precision);
      await page.goto(`${home}?embed#view=head`);
      await expect(page.getByRole("contentinfo").getByRole("note")).toHaveText(precision);
    } finally {
      server.kill("SIGTERM");
    }
  });

test("fp32 says nothing", async ({ watched: page, home }) => {
  await send(page, home);
  await open(page, home, "view=corpus");
  const card = runCard(page, "a-run-to-tell-its-precision");
  await expect(card.locator(".state")).toHaveText("Done");
  await expect(card.getByRole("note")).toBeHidden();
  await open(page, home);
  await expect(modelBox(page)).toHaveValue("mini");
  await expect(page.getByRole("note")).toBeHidden();
});
