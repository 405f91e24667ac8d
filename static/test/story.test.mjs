// Stories come from files of strangers.
import assert from "node:assert/strict";
import test from "node:test";
import { pageOf, pictureAddress, storyIn } from "../src/story/page.ts";
import { parseStory } from "../src/story/story.ts";

const step = { view: "view=head", title: "t", caption: "c", picture: "<svg></svg>" };
const note = { model: "m", layer: 1, head: 2, cell: null, about: "a", words: "w" };

test("a saved story is read again", () => {
  const story = { steps: [{ ...step, title: "</script><!--" }], notes: [note] };
  assert.deepEqual(storyIn(pageOf(story, [[note]])), story);
});

test("a hostile story becomes data or nothing", () => {
  const nothing = { steps: [], notes: [] };
  for (const text of [
    "",
    "7",
    "null",
    '"x"',
    "[".repeat(1e6),
    '{"__proto__":{"steps":[1]}}',
    '{"steps":{"length":9e15},"notes":7}',
  ])
    assert.deepEqual(parseStory(text), nothing);
  const wrong = [null, 7, [], { ...step, view: 1 }, { ...step, view: "x".repeat(2e6) }, { ...step, caption: {} }];
  assert.deepEqual(
    parseStory(
      JSON.stringify({
        steps: wrong,
        notes: [
          { ...note, layer: 1.5 },
          { ...note, cell: { at: [0] } },
        ],
      }),
    ),
    nothing,
  );
  const many = parseStory(JSON.stringify({ steps: Array(1000).fill(step), notes: Array(5000).fill(note) }));
  assert.deepEqual([many.steps.length, many.notes.length], [60, 300]);
  assert.equal(parseStory(JSON.stringify([{ ...step, picture: "javascript:alert(1)" }])).steps[0].picture, "");
});

test("markup of a story is text in the page", () => {
  const evil = '"><script>alert(1)</script>';
  const story = parseStory(
    JSON.stringify({
      steps: [{ ...step, title: evil, caption: evil, picture: `<svg onload="alert(1)">${evil}` }],
      notes: [{ ...note, about: evil, words: evil }],
    }),
  );
  const page = pageOf(story, [story.notes]);
  assert.equal(page.split("<script").length, 3); // the story and the script of the slides
  assert.ok(!page.includes("<script>alert") && !page.includes('onload="'));
});

test("half a pair of UTF-16 breaks neither pictures nor pages", () => {
  for (const half of ["\ud800", "\udc00", "a\ud800b\udc00c"]) {
    const [opened] = parseStory(
      JSON.stringify([{ view: half, title: half, caption: half, picture: `<svg${half}` }]),
    ).steps;
    assert.ok(pictureAddress(opened.picture).includes("%EF%BF%BD"));
    assert.ok(!/[\ud800-\udfff]/.test(opened.title + opened.view + opened.caption));
  }
  assert.equal(parseStory(JSON.stringify([{ ...step, title: "\u{1f600}" }])).steps[0].title, "\u{1f600}");
});
