// The page that the Python client saves, without a server: read by keyboard and by a screen reader.
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { expect, findings, test } from "./viewer";

const TEXT = "The dog saw the cat.";

for (const colorScheme of ["light", "dark"] as const)
  test(`the values of a saved page are read by arrow keys, and said, ${colorScheme}`, async ({ page, home, request }, info) => {
    const file = info.outputPath("answer.html");
    execFileSync(process.env.PYTHON ?? "python3", ["e2e/page.py", home, file]);
    await page.emulateMedia({ colorScheme });
    await page.goto(pathToFileURL(file).href);
    const map = page.getByRole("application", { name: /^attentions of mini, layer 3, head 0\. Arrow keys/ });
    const said = page.getByRole("status"); // live
    await page.keyboard.press("Tab"); // the heads: one stop
    await expect(page.getByRole("button", { name: "layer 3, head 0", exact: true })).toBeFocused();
    await page.keyboard.press("Tab");
    await expect(map).toBeFocused();
    const { attentions } = await (await request.post(`${home}analyze`, { data: { text: TEXT, layers: [1, 3], outputs: ["attentions"] } })).json();
    const reads = async (layer: number, head: number, [i, j]: [number, number], tokens: [string, string]): Promise<void> => {
      await expect(said).toContainText(`${tokens[0]} (${i}) → ${tokens[1]} (${j}): `);
      const value = Number((await said.textContent())!.split(": ").at(-1));
      expect(Math.abs(value - attentions[layer][head][i][j])).toBeLessThan(0.01);
    };
    await page.keyboard.press("ArrowDown");
    await reads(1, 0, [0, 0], ["[CLS]", "[CLS]"]);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await reads(1, 0, [1, 2], ["the", "dog"]);
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowRight"); // the last column stays
    await reads(1, 0, [1, 7], ["the", "[SEP]"]);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowRight");
    await expect(page.getByRole("button", { name: "layer 1, head 1", exact: true })).toBeFocused();
    await expect(page.getByRole("button", { pressed: true })).toHaveAccessibleName("layer 1, head 1");
    expect(Math.abs(attentions[0][1][1][7] - attentions[1][0][1][7])).toBeGreaterThan(0.02); // the two differ
    await reads(0, 1, [1, 7], ["the", "[SEP]"]);
    expect(await findings(page)).toEqual([]);
  });
