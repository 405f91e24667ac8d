// Corpus runs of labelled texts: started on the page, and what the model got right, as in the run's report.
import { bodyRows, expect, findings, open, rankedHeads, runCard, runOptions, settled, taskTest as test, view } from "./viewer";

const LABELS = ["angry", "calm", "merry"];
const TEXTS = Array.from({ length: 18 }, (_, n) => ({ text: `The dog ${n} saw the cat. It ran ${"on ".repeat(n % 5)}.`, mood: LABELS[n % 3] }));

test("a run of labelled texts shows what its report says", { tag: "@slow" }, async ({ watched: page, home, request }) => {
  await open(page, home, "view=corpus");
  const buffer = Buffer.from(TEXTS.map((text) => JSON.stringify(text)).join("\n"));
  await page.getByLabel("Drop a file").setInputFiles({ name: "moods.jsonl", mimeType: "application/x-ndjson", buffer });
  await page.getByRole("combobox", { name: "Model", exact: true }).selectOption("moods");
  await runOptions(page).click();
  await page.getByLabel("Label field").fill("mood");
  await page.getByLabel("Share for effects").fill("2");
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(page.getByLabel("Share for effects")).toHaveAccessibleDescription(/1/);
  await page.getByLabel("Share for effects").fill("0.5");
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(runCard(page, "moods.jsonl")).toContainText("Done");
  await settled(page);

  const { corpora } = await (await request.get(`${home}corpora`)).json();
  const report = await (await request.get(`${home}corpora/${corpora[0].id}/report`)).json();
  const { labels, label_confusion: confusion } = report;
  const box = view(page, "Corpus").locator(".labels");
  await expect(box).toContainText(`${labels.right} of 18 texts`);
  const tables = box.locator(".server-part").getByRole("table"); // labels, confusion, calibration, heads, groups
  await expect(tables).toHaveCount(5);
  const cells = await tables.nth(1).getByRole("cell").allTextContents();
  expect(cells.map(Number)).toEqual(confusion.flat());
  const bins = labels.calibration.filter((bin: { texts: number }) => bin.texts > 0).length;
  for (const [n, rows] of [3, 3, bins, 3, labels.groups.length].entries())
    await expect(bodyRows(tables.nth(n))).toHaveCount(rows);
  const effects = (await tables.nth(3).locator("tbody").textContent())!; // each head with its number, strong ones too
  expect(effects.match(/\d·\d+ [+-]\d/g)).toHaveLength(effects.match(/·/g)!.length);

  const merry = labels.classes[2];
  await box.getByLabel("Heads of the label").selectOption("merry");
  const [best] = merry.heads;
  await expect(rankedHeads(box).getByRole("button").first()).toHaveText(`Layer ${best.layer} head ${best.head}`);
  await expect(page).toHaveURL(/runlabel=merry/);
  expect(await findings(page)).toEqual([]);
  await rankedHeads(box).getByRole("button").first().click();
  await expect(page).toHaveURL(new RegExp(`view=head.*layer=${best.layer}`));
});
