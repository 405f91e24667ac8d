// The page by keyboard alone: few stops for the Tab key lie before the heads, and each control is reached.
import type { Page } from "@playwright/test";
import { expect, findHeads, findings, open, settled, test, textBox, view } from "./viewer";

const STOPS_MOST = 8; // before the heads

// Describes what has the focus. Its place in the document tells it from others.
const focused = (page: Page): Promise<{ id: string; bar: string; heads: boolean; arrows: boolean }> =>
  page.evaluate(() => {
    const one = document.activeElement as HTMLElement;
    const all = [...document.querySelectorAll<HTMLElement>("*")];
    return {
      id: one === document.body ? "" : `${all.indexOf(one)}`,
      bar: one.closest("[role=toolbar]")?.getAttribute("aria-label") ?? "",
      heads: one.matches(".thumb"),
      arrows: !one.matches("textarea, input:not([type=radio], [type=checkbox])") && !one.closest(".sheet, .story-sheet"),
    };
  });

const skipLink = (page: Page) => page.getByRole("link", { name: "Skip to the view" });

async function stopsBeforeHeads(page: Page): Promise<number> {
  await skipLink(page).focus();
  for (let n = 1; n < 60; n++) {
    await page.keyboard.press("Tab");
    if ((await focused(page)).heads) return n;
  }
  return Infinity;
}

// Visits each stop of the Tab key, and in a toolbar each control by Right, from its first. Returns the visible controls
// that were not met. Groups with arrow keys of their own, such as the heads, count as met with one of their members.
async function missed(page: Page): Promise<string[]> {
  await skipLink(page).focus();
  const met = new Set<string>();
  const bars = new Set<string>();
  for (let stop = await focused(page); stop.id && !met.has(stop.id); stop = await focused(page)) {
    met.add(stop.id);
    if (stop.bar && stop.arrows && !bars.has(stop.bar)) {
      bars.add(stop.bar);
      await page.keyboard.press("Home");
      for (let last = "", at = await focused(page); at.id !== last; at = await focused(page)) {
        expect(at.bar).toBe(stop.bar);
        met.add((last = at.id));
        await page.keyboard.press("ArrowRight");
      }
      await page.keyboard.press("Home"); // Tab goes on to the row's fields
    }
    await page.keyboard.press("Tab");
  }
  return page.evaluate((reached) => {
    const all = [...document.querySelectorAll<HTMLElement>("*")];
    const known = new Set(reached.map((n) => all[Number(n)]!));
    const groupOf = (one: HTMLInputElement): unknown =>
      one.closest("[role=toolbar]") ? one : (one.closest("[role=grid], .strip-heads, .switches") ?? (one.type === "radio" ? one.name : one));
    const groups = new Set([...known].map((one) => groupOf(one as HTMLInputElement)));
    const controls = "a[href], button, input, select, textarea, summary, [tabindex='0']";
    return [...document.querySelectorAll<HTMLInputElement>(controls)]
      .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && !groups.has(groupOf(one)))
      .map((one) => one.outerHTML.slice(0, 120));
  }, [...met]);
}

for (const tour of [false, true])
  test(`at most ${STOPS_MOST} stops of the keyboard lie before the heads, ${tour ? "with" : "without"} the tour`, async ({ watched: page, home }) => {
    await open(page, home, "", tour);
    await settled(page);
    expect(await stopsBeforeHeads(page)).toBeLessThanOrEqual(STOPS_MOST);
    if (!tour) return;
    for (const last of [false, false, false, true]) {
      await page.getByRole("dialog", { name: "Tour" }).getByRole("button", { name: "Next" }).click();
      await settled(page);
      expect(await stopsBeforeHeads(page)).toBeLessThanOrEqual(STOPS_MOST);
      if (last) expect(await findings(page)).toEqual([]);
    }
  });

for (const [name, fragment] of [
  ["Heads", ""],
  ["Maps", "view=head&layer=1&head=4"],
  ["Text", "view=text&layer=1&head=4"],
  ["Pairs", "view=pairs&layer=1&head=4"],
  ["Compare", "view=compare&layer=1&head=4&layer2=2"],
  ["Experiment", "view=experiment&edits=z1.2"],
  ["Trace", "view=trace"],
  ["Corpus", "view=corpus"],
] as const)
  test(`each control in sight is reached by Tab and arrows: ${name}`, async ({ watched: page, home }) => {
    await open(page, home, fragment);
    await expect(view(page, name)).toBeVisible();
    await settled(page);
    expect(await missed(page)).toEqual([]);
  });

test("a row of controls is one stop: arrows move, lists and radio buttons keep Up and Down, fields keep all", async ({ watched: page, home }) => {
  await open(page, home, "view=overview&show=attention");
  await settled(page);
  const analyse = page.getByRole("button", { name: "Analyse", exact: true });
  const model = page.getByRole("combobox", { name: "Model", exact: true });
  const display = page.locator("summary", { hasText: "Display…" });
  await expect(page.getByRole("toolbar", { name: "Analysis" }).getByRole("combobox")).toHaveCount(2);
  await textBox(page).focus();
  await page.keyboard.press("Tab");
  await expect(analyse).toBeFocused();
  for (const key of ["ArrowLeft", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  await expect(model).toBeFocused();
  await expect(model).toHaveValue("mini"); // Right would choose the next one
  await page.keyboard.press("End");
  await expect(display).toBeFocused();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  const slider = page.getByRole("slider", { name: "Similarity τ" });
  await expect(slider).toBeFocused();
  await page.keyboard.press("ArrowRight");
  await expect(slider).toHaveValue("0.31");
  await page.keyboard.press("Escape");
  await expect(display).toBeFocused();
  await page.keyboard.press("Shift+Tab");
  await expect(textBox(page)).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(display).toBeFocused(); // where the row was left

  const shown = (name: string) => page.getByRole("radio", { name, exact: true });
  await page.keyboard.press("Tab");
  await expect(shown("Attention")).toBeFocused();
  await page.keyboard.press("ArrowRight");
  await expect(shown("Similarity")).toBeFocused();
  await expect(shown("Attention")).toBeChecked();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Shift+Tab");
  await expect(shown("Attention")).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await expect(shown("Similarity")).toBeChecked();
  await settled(page);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Shift+Tab");
  await expect(shown("Similarity")).toBeFocused();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Space");
  await expect(shown("Attention")).toBeChecked();

  await findHeads(page);
  const find = page.getByRole("searchbox", { name: "Find heads" });
  await find.focus();
  await page.keyboard.type("previous");
  for (const key of ["Home", "ArrowRight"]) await page.keyboard.press(key);
  await expect(find).toBeFocused();
  expect(await find.evaluate((one) => (one as HTMLInputElement).selectionStart)).toBe(1);
  await settled(page);
  expect(await findings(page)).toEqual([]);
  expect(await missed(page)).toEqual([]);

  await page.evaluate(() => (document.documentElement.dir = "rtl"));
  await analyse.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await expect(model).toBeFocused();
});

test("a row of controls stays in reach when its stop goes or is disabled", async ({ watched: page, home }) => {
  await open(page, home, "");
  await settled(page);
  await page.getByRole("button", { name: "Show the paper’s S" }).focus();
  await page.keyboard.press("Enter");
  await settled(page);
  expect(await missed(page)).toEqual([]);
  await page.evaluate(() => (location.hash += "&view=experiment&edits=z1.2"));
  const release = page.getByRole("toolbar", { name: "Controls of Experiment" }).getByRole("button", { name: "Release all" });
  await release.focus();
  await page.keyboard.press("Enter");
  await expect(release).toBeDisabled();
  await settled(page);
  expect(await missed(page)).toEqual([]);
});
