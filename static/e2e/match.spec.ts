// The head of another model that is most like one; and a head between two columns of tokens.
import { expect, findings, LONG, open, settled, test } from "./viewer";

test("the same weights under another name: every head matches itself", async ({ watched: page, home }) => {
  await open(page, home, "view=compare&against=model&model=mini&model2=twin&layer=3&head=5&matches=1&text=The+cat+sat+on+the+mat.");
  const matches = page.getByRole("button", { name: /^Layer \d+ head \d+/ });
  await expect(matches).toHaveCount(8);
  await expect(matches.first()).toContainText("Layer 3 head 51.000");
  await matches.first().focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/layer2=3&head2=5/);
  await expect(matches.first()).toHaveAttribute("aria-pressed", "true");
  await settled(page);
  expect(await findings(page)).toEqual([]);
});

test("lines between two columns: a token shows its own; long texts are refused", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  const text = "The old bridge closed after the war.";
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await open(page, home, `view=head&layer=1&head=4&sided=1&text=${encodeURIComponent(text)}`);
  const { attentions, tokens } = await (await request.post(`${home}analyze`, { data: { text, layers: [1], heads: [4], outputs: ["attentions"] } })).json();
  const rows = attentions[0][0] as number[][];
  const lines = page.locator(".two-sided path");
  await expect(lines).toHaveCount(rows.flat().filter((value) => value >= 0.02).length);
  const left = page.getByRole("list", { name: "Tokens that attend" }).getByRole("button");
  await expect(left).toHaveText(tokens);
  await left.nth(3).focus();
  await expect(lines).toHaveCount(rows[3]!.filter((value) => value >= 0.02).length);
  const best = rows[3]!.indexOf(Math.max(...rows[3]!));
  await expect(page.getByRole("status").filter({ hasText: "attends to" })).toContainText(`bridge 3 attends to ${tokens[best]} ${best}: ${Math.round(100 * rows[3]![best]!)} %`);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`pin=3\\.${best}`));
  await settled(page);
  expect(await findings(page)).toEqual([]);
  await open(page, home, `${LONG}&view=head&layer=1&head=4&sided=1`);
  await page.reload();
  await expect(page.getByText("For texts of at most 64 tokens")).toBeVisible();
});
