// The four sections, and the parts of each: by mouse, by keyboard, by old addresses, and as an assistive program finds them.
import { expect, goTo, LONG, looking, open, settled, test, view } from "./viewer";

test("four sections: each opens at the part that it was left at, and the bar says which is open", async ({ watched: page, home }) => {
  await open(page, home, "view=text&layer=1&head=4");
  const sections = page.getByRole("navigation", { name: "Sections" });
  const current = (name: string) => sections.getByRole("button", { name, exact: true });
  await expect(sections.getByRole("button")).toHaveText(["Heads", "Head", "What if", "Corpus"]);
  await expect(current("Head")).toHaveAttribute("aria-current", "true");
  const parts = page.getByRole("navigation", { name: "Parts of Head" });
  await expect(parts.getByRole("button")).toHaveText(["Maps", "Text", "Pairs"]);
  await expect(parts.locator("[aria-current=page]")).toHaveText("Text");
  await goTo(page, "Heads");
  await expect(view(page, "Heads")).toBeVisible();
  await expect(current("Heads")).toHaveAttribute("aria-current", "page");
  await expect(page.getByRole("navigation")).toHaveCount(1); // a section of one part has no others to offer
  await current("Head").click();
  await expect(view(page, "Text")).toBeVisible();
  await expect(page).toHaveURL(/view=text/);
  for (const [key, name] of Object.entries({ 5: "Experiment", 6: "Compare", 7: "Trace", 8: "Corpus" })) {
    await page.keyboard.press(key);
    await expect(page).toHaveTitle(new RegExp(`${name} · headscope$`));
  }
  await current("What if").focus();
  await page.keyboard.press("Enter");
  await expect(view(page, "Trace")).toBeVisible();
  await settled(page);
  await expect(current("What if")).toBeFocused();
});

test("the parts of Head stand under one title: the head, and its pattern", async ({ watched: page, home, request }) => {
  const [{ layer, head }] = (await looking(request, home, "previous")) as [{ layer: number; head: number }];
  await open(page, home, `view=head&layer=${layer}&head=${head}`);
  const title = page.getByRole("heading", { name: `Layer ${layer} · head ${head} · previous` });
  for (const part of ["Maps", "Text", "Pairs"]) {
    await goTo(page, part);
    await expect(view(page, part)).toBeVisible();
    await expect(title).toBeInViewport();
  }
  await goTo(page, "Compare");
  await expect(title).toHaveCount(0);
});

test("a short text has its lines beside the maps unasked, a longer one once they are wanted", async ({ watched: page, home }) => {
  await open(page, home, "view=head&layer=1&head=4");
  const lines = page.getByRole("list", { name: "Tokens that attend" });
  await expect(lines).toBeVisible();
  await settled(page);
  const [map, beside] = [(await page.locator(".plate").last().boundingBox())!, (await lines.boundingBox())!];
  expect(beside.x).toBeGreaterThan(map.x + map.width - 1);
  expect(beside.y).toBeLessThan(map.y + map.height);
  await page.getByText("Lines between two columns").click();
  await expect(lines).toHaveCount(0);
  await expect(page).toHaveURL(/sided=0/);
  await open(page, home, `view=head&layer=1&head=4&max=50&${LONG}`);
  await settled(page);
  await expect(lines).toHaveCount(0);
  await page.getByText("Lines between two columns").click();
  await expect(lines.getByRole("listitem")).toHaveCount(50);
  await expect(page).toHaveURL(/sided=1/);
});
