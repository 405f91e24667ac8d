import assert from "node:assert/strict";
import test from "node:test";
import { formatEdits, inWords, parseEdits, requestOf, toggled, toggledLayer } from "../src/passes/interventions.ts";
import { guessesOf } from "../src/ui/likeliest";
import "../src/fields.ts";
import { formatState, INITIAL, parseState } from "../src/app/state.ts";

const edit = (kind, layer, head, factor = 0) => ({ kind, layer, head, factor });

test("interventions in the address and back", () => {
  const edits = [edit("zero", 1, 7), edit("scale", 4, 3, -0.5), edit("scale", 4, 4, 1.5e-7), edit("identity", 11, 0)];
  assert.equal(formatEdits(edits), "z1.7_x4.3.-0.5_x4.4.1.5e-7_i11.0");
  assert.deepEqual(parseEdits(formatEdits(edits)), edits);
  const others = [edit("zero", 1, 7), { ...edit("zero", 1, 7), stack: "cross" }, { ...edit("scale", 0, 2, 3), stack: "decoder" }];
  assert.equal(formatEdits(others), "z1.7_zC1.7_xD0.2.3");
  assert.deepEqual(parseEdits(formatEdits(others)), others);
  for (const wrong of ["", "z", "z1", "zX1.1", "q1.1", "z1.1.2", "x1.1", "x1.1.a", "z1.1_", "z-1.1"]) assert.equal(parseEdits(wrong), undefined, wrong);
  assert.deepEqual(parseEdits("z3.2_z1.1_m3.2"), [edit("zero", 1, 1), edit("mean", 3, 2)]); // the last of a head counts
  assert.deepEqual(parseState(`#${formatState({ ...INITIAL, edits })}`).state.edits, edits);
  assert.deepEqual(parseState("#edits=q1&layer=3&view=nowhere").unread, ["view", "edits"]);
  assert.deepEqual(parseState("#link=0123456789abcdef").unread, ["link"]);
});

test("a press changes a head, changes it otherwise, releases it; so for a layer", () => {
  const one = toggled([], edit("zero", 2, 1));
  assert.deepEqual(toggled(one, edit("zero", 2, 1)), []);
  assert.deepEqual(toggled(one, edit("mean", 2, 1)), [edit("mean", 2, 1)]);
  assert.deepEqual(toggled([edit("scale", 2, 1, 2)], edit("scale", 2, 1, 3)), [edit("scale", 2, 1, 3)]);
  const layer = toggledLayer(one, 2, { kind: "uniform", layer: 2, factor: 0 });
  assert.deepEqual(layer, [edit("uniform", 2, 0), edit("uniform", 2, 1)]);
  assert.deepEqual(toggledLayer(layer, 2, { kind: "uniform", layer: 2, factor: 0 }), []);
  assert.equal(inWords([...layer, edit("zero", 3, 0)]), "2 heads made to attend evenly, 1 switched off");
  const cross = { ...edit("zero", 3, 0), stack: "cross" };
  assert.equal(inWords([edit("zero", 3, 0), cross, { ...cross, head: 1 }]), "1 head switched off, 2 cross heads switched off");
  assert.deepEqual(toggled([edit("zero", 3, 0), cross], cross), [edit("zero", 3, 0)]);
  assert.deepEqual(requestOf([edit("zero", 3, 0), cross]), [{ layers: [3], heads: [0], kind: "zero" }, { layers: [3], heads: [0], kind: "zero", stack: "cross" }]);
});

test("the request has the heads of a layer together", () => {
  assert.deepEqual(requestOf([edit("zero", 1, 2), edit("zero", 1, 5), edit("scale", 1, 6, 0.5), edit("zero", 2, 2)]), [
    { layers: [1], heads: [2, 5], kind: "zero" },
    { layers: [1], heads: [6], kind: "scale", factor: 0.5 },
    { layers: [2], heads: [2], kind: "zero" },
  ]);
});

test("the likeliest tokens of both sides, as they stand after", () => {
  const side = (...tops) => ({ position: 1, token: "[MASK]", probability: null, rank: null, entropy: 1, top: tops.map(([id, probability]) => ({ id, token: `t${id}`, probability })) });
  const guesses = guessesOf(side([1, 0.5], [2, 0.3], [3, 0.1]), side([2, 0.6], [4, 0.2], [1, 0.1]), 2);
  assert.deepEqual(guesses.map(({ id }) => id), [2, 4, 1]);
  assert.deepEqual(guesses[1].before, null);
  assert.deepEqual(guesses[0].before, { rank: 2, probability: 0.3 });
  assert.deepEqual(guessesOf(side([1, 0.5], [2, 0.3]), null, 2).map(({ id }) => id), [1, 2]);
});
