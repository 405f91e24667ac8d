// Tokens of a byte-level tokenizer are shown as text, in every view.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@playwright/test";
import { open, readout, reload } from "./viewer";

// A random RoBERTa with the first tokenizer of the oracle's fixtures.
const MAKE = `
import lzma, struct, sys
from pathlib import Path
sys.path.insert(0, "../tests/reference")
import family_roberta
folder = Path(sys.argv[1])
family_roberta.write_random(folder, vocab=700)
for path in (*folder.glob("vocab.txt"), *folder.glob("tokenizer*")):
    path.unlink()
with lzma.open("../tests/unit/tokenizer_bpe_oracle.xz") as fixtures:
    (folder / "tokenizer.json").write_bytes(fixtures.read(struct.unpack("<II", fixtures.read(8))[1]))
`;

let server: ChildProcess;
let home = "";

test.beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "headscope-pieces-"));
  execFileSync("python3", ["-c", MAKE, join(folder, "roberta")]);
  server = spawn(
    process.env.HEADSCOPE ?? "../build/headscope",
    ["serve", "--listen", "127.0.0.1:0", "--state", join(folder, "runs"), "--model", `roberta=${join(folder, "roberta")}`],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  home = await new Promise((ready, fail) => {
    server.once("exit", (code) => fail(new Error(`the server ended with ${code}`)));
    server.stdout!.on("data", (data) => {
      const address = /http:\/\/\S+/.exec(String(data))?.[0];
      if (address) ready(`${address.replace(/\/$/, "")}/`);
    });
  });
});
test.afterAll(() => void server.kill("SIGTERM"));

const TEXT = encodeURIComponent("The caf\u00e9 of Paris <mask> \u2014 the war.\nThe end");

test("no view shows a byte's letter, and every space its mark", { tag: "@slow" }, async ({ page }) => {
  for (const name of ["head", "text", "pairs"]) {
    await open(page, home, `text=${TEXT}&view=${name}&layer=0&head=0&special=1`);
    await reload(page);
    await expect(page.getByRole("main")).toContainText("Paris");
    await expect(page.getByRole("main")).not.toContainText(/[\u0120\u010a\u00c3\u00e2]/);
  }
  await open(page, home, `text=${TEXT}&view=head&layer=0&head=0&special=1&pin=1.2`);
  await reload(page);
  await expect(readout(page)).toContainText("The 1 → ␣c");
});
