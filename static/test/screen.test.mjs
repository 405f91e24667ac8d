import { differenceShade } from "../src/maps/shade.ts";
import { statusOf } from "../src/ui/status.tsx";
import assert from "node:assert/strict";
import test from "node:test";
import { hueOf, HUES, inkOn, lutOf, luminance, MAPS, toOklab } from "../src/maps/colour.ts";
import { format, indicesOf, percent, position, signedIndicesOf, signedTicksOf, ticksOf, wordsOf } from "../src/maps/scale.ts";
import "../src/fields.ts";
import { directionOf } from "../src/app/bidi.ts";
import { fieldOf, firstPage, formatState, INITIAL, leavesFirst, parseState, VIEWS } from "../src/app/state.ts";
import { METRICS } from "../src/heads/figures.ts";
import { curlOf, pythonOf } from "../src/saving/export.ts";
import { csvText } from "../src/saving/files.ts";
import { readFileArrays } from "../src/opened/file-arrays.ts";
import { addSide, npzOf } from "../src/saving/npz.ts";
import { crc32, withText } from "../src/saving/png.ts";
import { strongest } from "../src/maps/heatmap.ts";
import { pool, rootIndex } from "../src/maps/thumbnail.ts";
import { moveFocus } from "../src/ui/arrows.ts";
import { attentionEnds, pairEnds, placeIn } from "../src/views/text/arcs.ts";
import { fetchedRows, partRequest, relationOf } from "../src/views/text/rows.ts";
import { blocksOf, spansOf, unitsOf } from "../src/ui/text-spans.ts";
import { labelStep, Viewport } from "../src/maps/viewport.ts";

const THEMES = ["light", "dark"];

const labOf = (colour) => toOklab([colour & 255, (colour >> 8) & 255, (colour >> 16) & 255]);

test("colour maps rise or fall from 0 in even steps of lightness", () => {
  for (const map of MAPS)
    for (const theme of THEMES)
      for (const quantity of ["attention", "similarity", "figure", "signed", "difference"]) {
        const lut = [...lutOf(map, quantity, theme)].map((c) => labOf(c)[0]);
        const sides = quantity === "signed" || quantity === "difference" ? [lut.slice(0, 129).reverse(), lut.slice(128)] : [lut];
        for (const side of sides) {
          const [first, last] = [side[0], side.at(-1)];
          assert.ok(Math.abs(last - first) > 0.5, `${map} ${quantity} ${theme} spans too little`);
          side.forEach((l, k) => {
            const even = first + ((last - first) * k) / (side.length - 1);
            assert.ok(Math.abs(l - even) < 0.02, `${map} ${quantity} ${theme}: ${l} at ${k} instead of ${even}`);
          });
        }
      }
});

test("attention, similarity and what is below 0 differ in every palette", () => {
  for (const map of MAPS)
    for (const theme of THEMES) {
      const luts = ["attention", "similarity", "signed"].map((quantity) => lutOf(map, quantity, theme));
      for (const at of [0.4, 0.6, 0.8]) {
        const [a, s] = luts.slice(0, 2).map((lut) => labOf(lut[Math.round(255 * at)]));
        const [over, under] = [1, -1].map((sign) => labOf(luts[2][Math.round(128 + sign * 127 * at)]));
        const apart = (p, q) => Math.hypot(p[1] - q[1], p[2] - q[2]);
        assert.ok(apart(a, s) > 0.03, `${map} ${theme}: attention and similarity at ${at}`);
        assert.ok(apart(over, under) > 0.05, `${map} ${theme}: above and below 0 at ${at}`);
      }
    }
});

// Viénot 1999: what is left of a colour without long- or medium-wave cones, in linear RGB.
const BLIND = {
  protan: [
    [0.11238, 0.88762, 0],
    [0.11238, 0.88762, 0],
    [0.00401, -0.00401, 1],
  ],
  deutan: [
    [0.29275, 0.70725, 0],
    [0.29275, 0.70725, 0],
    [-0.02234, 0.02234, 1],
  ],
};
test("the diverging map keeps its two sides apart for colour-blind eyes", () => {
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const srgb = (v) => 255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * Math.max(0, v) ** (1 / 2.4) - 0.055);
  for (const [theme, quantity] of THEMES.flatMap((t) => ["difference", ...MAPS].map((m) => [t, m])))
    for (const matrix of Object.values(BLIND)) {
      const lab = (colour) => {
        const rgb = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
        return toOklab(matrix.map((row) => srgb(row.reduce((sum, w, k) => sum + w * linear(rgb[k]), 0))));
      };
      const lut = (quantity === "difference" ? lutOf("ink", quantity, theme) : lutOf(quantity, "signed", theme));
      for (const k of [0, 30, 60]) {
        const [a, b] = [lab(lut[k]), lab(lut[255 - k])];
        assert.ok(Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) > 0.1, `${theme} ${quantity}: side ${k} is lost`);
      }
    }
});

test("text upon a colour reads: contrast at least 4.5", () => {
  for (const theme of THEMES) {
    const lut = lutOf("ink", "figure", theme);
    for (let k = 0; k <= 20; k++) {
      const c = lut[Math.round((k / 20) * 255)];
      const page = luminance([c & 255, (c >> 8) & 255, (c >> 16) & 255]);
      const ink = inkOn(lut, k / 20) === "#ffffff" ? 1 : 0;
      const contrast = (Math.max(page, ink) + 0.05) / (Math.min(page, ink) + 0.05);
      assert.ok(contrast >= 4.5, `${theme} ${k}: ${contrast}`);
    }
  }
});

test("the hues of tokens can be told apart, and text reads on them", () => {
  for (const theme of THEMES) {
    const hues = Array.from({ length: HUES }, (_, n) => hueOf(n, theme).match(/\d+/g).map(Number));
    const page = theme === "light" ? 0 : 1; // the luminance of text
    hues.forEach((a, n) => {
      const [high, low] = [luminance(a), page].sort((p, q) => q - p);
      assert.ok((high + 0.05) / (low + 0.05) >= 4.5, `${theme} ${n}`);
      for (const b of hues.slice(n + 1)) {
        const [p, q] = [toOklab(a), toOklab(b)];
        assert.ok(Math.hypot(...p.map((v, k) => v - q[k])) > 0.07, `${theme} ${a} ${b}`);
      }
    });
  }
});

test("scales: ends, middle, nothing below 0", () => {
  assert.equal(position(5, 10, "linear"), 0.5);
  assert.equal(position(1, 10, "log"), 0.75);
  assert.equal(position(2.5, 10, "root"), 0.5);
  assert.equal(position(1e-9, 10, "log"), 0);
  assert.equal(position(-1, 10, "linear"), 0);
  assert.equal(position(1, 0, "linear"), 0);
  assert.equal(position(20, 10, "linear"), 1);
});

test("colour indices of a map: linear, log, per row", () => {
  const map = Float32Array.of(0, 1, 2, 4, 0, 0);
  assert.deepEqual([...indicesOf(map, 2, 3, 4, "linear")], [0, 64, 128, 255, 0, 0]);
  assert.deepEqual([...indicesOf(map, 2, 3, 4, "row")], [0, 128, 255, 255, 0, 0]);
  assert.deepEqual([...indicesOf(map, 2, 3, 4, "root")], [0, 128, 180, 255, 0, 0]);
  assert.deepEqual([...signedIndicesOf([-1, 1, -4, 4], 2, 2, 4, "root")], [64, 192, 0, 255]);
  const log = indicesOf(map, 2, 3, 4, "log");
  assert.equal(log[3], 255);
  assert.ok(log[1] > 200 && log[0] === 0);
  assert.deepEqual([...indicesOf(Float32Array.of(-1, -2), 1, 2, -1, "linear")], [0, 0]);
  assert.deepEqual([...signedIndicesOf([-2, 0, 2, 9], 2, 2, 2, "linear")], [0, 128, 255, 255]);
  assert.deepEqual([...signedIndicesOf([0], 1, 1, 0, "linear")], [128]);
  assert.deepEqual([...signedIndicesOf([-1, 1, -4, 2], 2, 2, 4, "row")], [0, 255, 0, 192]);
  const sides = signedIndicesOf([-1, 1, -1e-9, 0], 2, 2, 10, "log");
  assert.deepEqual([...sides], [32, 223, 128, 128]);
});

test("ticks and numbers are short and say what they mean", () => {
  assert.deepEqual(
    ticksOf(4, "linear").map((t) => t.label),
    ["0", "2.00", "4.00"],
  );
  assert.deepEqual(
    ticksOf(4, "log").map((t) => t.at),
    [0, 0.5, 1],
  );
  assert.deepEqual(
    signedTicksOf(4, "linear").map((t) => [t.at, t.label]),
    [
      [0, "−4.00"],
      [0.5, "0"],
      [1, "+4.00"],
    ],
  );
  assert.equal(wordsOf("linear", -3, 4), "linear, −3.00 to 4.00");
  assert.equal(wordsOf("row", 0, 4), "linear in each row, 0 to the row’s largest");
  assert.equal(wordsOf("linear", -0, 0), "all values are 0");
  assert.deepEqual(signedTicksOf(0, "linear"), [{ at: 0.5, label: "0" }]);
  assert.deepEqual(
    ticksOf(NaN, "linear").map((t) => t.label),
    ["0"],
  );
  assert.deepEqual([0, 0.03124, 31.24, 1234, 1e-7, -2.5, NaN, null].map(format), [
    "0",
    "0.0312",
    "31.2",
    "1234",
    "1.0e−7",
    "−2.50",
    "–",
    "–",
  ]);
  assert.deepEqual([0.5, 0.0123, 0.0004, 0, null].map(percent), ["50\u00a0%", "1.2\u00a0%", "<\u00a00.1\u00a0%", "0.0\u00a0%", "–"]);
});

test("state: what the address says comes back, defaults stay out of it", () => {
  assert.equal(formatState(INITIAL), "");
  const state = {
    ...INITIAL,
    view: "head",
    text: "naïve & “#=?”\n日本 🙂",
    layer: 7,
    head: -1,
    tau: 0.45,
    pin: [3, 9],
    sel: [1, 2],
    special: false,
    order: "-distance",
    find: "a b",
  };
  assert.deepEqual(parseState(`#${formatState(state)}`).state, state);
});

test("state: nonsense in the address falls back to defaults", () => {
  assert.deepEqual(parseState("#view=zzz&layer=x&tau=7&pin=1.2.3&head=1.5&special=maybe&max=").state, INITIAL);
  assert.deepEqual(parseState("#%E0%A4%A").state, INITIAL);
  assert.deepEqual(parseState("#runcolumn=-broad").state.runcolumn, "broad"); // of an earlier version
  for (const view of VIEWS) assert.equal(parseState(`view=${view}`).state.view, view);
  for (const sort of METRICS) assert.equal(parseState(`sort=${sort}`).state.sort, sort);
});

test("thumbnails keep the value largest in size of every block, and only tokens seen", () => {
  const all = [0, 1, 2, 3, 4, 5];
  const map = new Uint8Array(36);
  map[1 * 6 + 4] = 200;
  const { values, side } = pool(map, 6, 3, all);
  assert.equal(side, 3);
  assert.deepEqual([...values], [0, 0, 200, 0, 0, 0, 0, 0, 0]);
  assert.equal(pool(map, 6, 8, all).side, 6);
  assert.deepEqual([...pool(map, 6, 2, [1, 4]).values], [0, 200, 0, 0]);
  const signed = Int8Array.of(3, -90, 5, 7);
  assert.deepEqual([...pool(signed, 2, 1, [0, 1]).values], [-90]);
  assert.deepEqual([0, 64, 255].map((v) => rootIndex(v, false)), [0, 128, 255]);
  assert.deepEqual([-127, 0, 127].map((v) => rootIndex(v, true)), [1, 128, 255]);
});

test("crowded maps show the strongest cell of each pixel, of either sign", () => {
  const n = 8;
  const indices = new Uint8Array(n * n).fill(128);
  indices[2 * n + 5] = 0;
  indices[6 * n + 6] = 130;
  indices[7 * n + 7] = 129;
  const whole = strongest({ indices, n, middle: 128 }, { x: 0, y: 0, span: n }, 4);
  assert.equal(whole[1 * 4 + 2], 0);
  assert.equal(whole[3 * 4 + 3], 130);
  assert.equal(whole.filter((v) => v !== 128).length, 2);
  assert.deepEqual([...strongest({ indices, n, middle: 128 }, { x: 4, y: 2, span: 4 }, 2)], [0, 128, 128, 128]);
  // Two rows of eight cells fill the same square.
  const flat = { indices: indices.subarray(0, 2 * n), n: 2, m: n, unit: [4, 1], middle: 128 };
  flat.indices[n + 3] = 7;
  const wide = strongest(flat, { x: 0, y: 0, span: n }, 4);
  assert.deepEqual([wide.length, wide.indexOf(7), wide.lastIndexOf(7)], [16, 13, 13]);
});

test("viewport: zoom keeps the point, stays inside, reveals cells", () => {
  const v = new Viewport(100);
  v.zoom(2, 0.25, 0.75);
  assert.deepEqual([v.span, v.x, v.y], [50, 12.5, 37.5]);
  v.pan(1, -5);
  assert.deepEqual([v.x, v.y], [0, 50]);
  v.reveal(0, 99);
  assert.deepEqual([v.x, v.y], [50, 0]);
  v.zoom(1000);
  assert.equal(v.span, 4);
  v.zoom(1e-9);
  assert.deepEqual([v.span, v.x, v.y, v.zoomed], [100, 0, 0, false]);
  assert.equal(new Viewport(2).span, 2);
  assert.deepEqual([labelStep(3, 12), labelStep(20, 12)], [4, 1]);
});

test("code points become string positions", () => {
  assert.deepEqual([...unitsOf("a🙂é")], [0, 1, 3, 4]);
  assert.deepEqual([...unitsOf("")], [0]);
});

test("the first entry of the PNG text chunk is a valid chunk", () => {
  const png = new Uint8Array(8 + 25 + 4).fill(7);
  const out = withText(png, "headscope", "ü");
  const view = new DataView(out.buffer);
  const length = view.getUint32(33);
  assert.equal(new TextDecoder().decode(out.subarray(37, 41)), "iTXt");
  assert.equal(length, "headscope".length + 5 + 2);
  assert.equal(view.getUint32(41 + length), crc32(out.subarray(37, 41 + length)));
  assert.equal(crc32(new TextEncoder().encode("123456789")), 0xcbf43926);
  assert.deepEqual([...out.subarray(-4)], [7, 7, 7, 7]);
});

test("CSV quotes what it must", () => {
  const text = csvText([
    ["a", "b"],
    [',"', 1],
  ]);
  assert.equal(text, 'a,b\r\n",""",1\r\n');
});

test("CSV for spreadsheets holds no formulas", () => {
  const rows = [["=1+1", "-", -2, "a=b", "@x", '+"', null]];
  assert.equal(csvText(rows, true), "'=1+1,'-,-2,a=b,'@x,\"'+\"\"\",\r\n");
  assert.equal(csvText(rows), '=1+1,-,-2,a=b,@x,"+""",\r\n');
});

test("copied requests survive quotes", () => {
  const request = { text: 'It\'s "so" \\ \n', max_tokens: 128 };
  assert.ok(curlOf([request], "http://h/analyze").includes(`It'\\''s`));
  const python = pythonOf([request], "http://h/analyze");
  const json = /r'''(.*)'''/.exec(python)[1];
  assert.deepEqual(JSON.parse(json), request);
});

test("two requests are copied both; the token never is", () => {
  const requests = [{ text: "a" }, { text: "b" }];
  const curl = curlOf(requests, "http://h/analyze", true);
  assert.equal(curl.match(/^curl/gm).length, 2);
  assert.ok(curl.includes("-o headscope-2.npz") && curl.includes("$HEADSCOPE_TOKEN"));
  const python = pythonOf(requests, "http://h/analyze", true);
  assert.ok(python.includes("first = ask(") && python.includes("second = ask("));
  assert.ok(python.includes('os.environ["HEADSCOPE_TOKEN"]'));
});

test("npz: a ZIP of .npy files as NumPy writes them", async () => {
  const arrays = new Map();
  addSide(arrays, "first_", {
    tensors: new Map([["map", { dtype: "F32", shape: [1, 2], data: Float32Array.of(1.5, -2) }]]),
    metadata: { tokens: '["a","🙂b"]', model: "mini" },
  });
  assert.deepEqual([...arrays.keys()], ["first_map", "first_tokens", "first_model"]);
  const map = arrays.get("first_map");
  const view = new DataView(map.buffer);
  const length = view.getUint16(8, true);
  assert.equal((10 + length) % 64, 0);
  const header = new TextDecoder().decode(map.subarray(10, 10 + length));
  assert.equal(header.trimEnd(), "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }");
  assert.ok(header.endsWith("\n"));
  assert.deepEqual([view.getFloat32(10 + length, true), view.getFloat32(14 + length, true)], [1.5, -2]);
  assert.ok(new TextDecoder().decode(arrays.get("first_tokens")).includes("'<U2'"));
  assert.ok(new TextDecoder().decode(arrays.get("first_model")).includes("'shape': ()"));
  const zip = await npzOf(arrays);
  assert.equal(zip.type, "application/x-npz");
  const { tensors, strings } = await readFileArrays(zip);
  assert.deepEqual(tensors.get("first_map"), { dtype: "F32", shape: [1, 2], data: Float32Array.of(1.5, -2) });
  assert.deepEqual([...strings], [["first_tokens", ["a", "🙂b"]], ["first_model", ["mini"]]]);
  const again = await npzOf(arrays);
  assert.deepEqual(await again.arrayBuffer(), await zip.arrayBuffer());
});

test("one outlier does not make a difference's other cells pale", () => {
  const n = 40;
  const delta = Float32Array.from({ length: n * n }, (_, k) => (k === 7 ? 100 : (k % 11) / 10));
  const { indices, words, ticks } = differenceShade(delta, n, { map: "ink", theme: "light", scale: "linear" });
  assert.equal(indices[7], 255);
  assert.equal(indices[10], 255); // as large as the scale reaches
  assert.equal(ticks.at(-1).label, "+1.00");
  assert.match(words, /the largest, 100, lies beyond/);
});

test("a field says what is written on its control; a value without a name is called as it is", () => {
  const { label, choices } = fieldOf("scale");
  assert.equal(label, "Scale");
  assert.deepEqual(choices.map((one) => one.label), ["Root", "Linear", "Log", "Per row"]);
  assert.deepEqual(choices[1], { value: "linear", label: "Linear" });
  assert.match(choices[2].title, /^Four decades/);
  assert.deepEqual(fieldOf("kind").choices.map((one) => one.value), ["zero", "scale", "mean", "uniform", "identity"]);
  assert.equal(fieldOf("words").label, "Merge word pieces");
  for (const field of Object.keys(INITIAL)) {
    const values = fieldOf(field).choices?.map((one) => one.label) ?? [];
    assert.equal(new Set(values).size, values.length, field); // no two are called the same
  }
});

test("the first page is centred, and links and other texts are not", () => {
  const first = firstPage();
  assert.deepEqual(first, { ...INITIAL, center: true });
  assert.equal(formatState({ ...first, model: "mini" }).includes("center=1"), true);
  assert.equal(parseState("#view=overview").state.center, false);
  assert.equal(leavesFirst(first, { text: "Another.", pair: "" }), true);
  assert.equal(leavesFirst(first, { pair: "A second one." }), true);
  assert.equal(leavesFirst(first, { text: first.text, pair: "", window: 0 }), false);
  assert.equal(leavesFirst({ ...first, text: "Another." }, { text: "A third." }), false);
});

test("a text reads in the direction of its first letter", () => {
  assert.equal(directionOf("The harbour"), "ltr");
  assert.equal(directionOf("  42. שלום world"), "rtl");
  assert.equal(directionOf("العربية"), "rtl");
  assert.equal(directionOf("A word of Hebrew: שלום"), "ltr");
  assert.equal(directionOf("港町"), "ltr");
  assert.equal(directionOf("12 + 3"), "ltr");
  assert.equal(directionOf(""), "ltr");
});

test("left and right arrows follow the direction of the text", () => {
  const tokens = ["rtl", "rtl", "ltr", "ltr"].map((direction) => ({
    parentElement: { direction },
    focus() {
      globalThis.document.activeElement = this;
    },
  }));
  globalThis.getComputedStyle = ({ direction }) => ({ direction });
  const press = (at, key, altKey = false) => {
    globalThis.document = { activeElement: tokens[at] };
    return tokens.indexOf(moveFocus({ key, ctrlKey: false, altKey, preventDefault() {} }, tokens));
  };
  assert.deepEqual([press(0, "ArrowLeft"), press(1, "ArrowRight"), press(1, "ArrowDown")], [1, 0, 2]);
  assert.deepEqual([press(2, "ArrowRight"), press(3, "ArrowLeft"), press(3, "Home")], [3, 2, 0]);
  assert.equal(press(3, "ArrowLeft", true), -1); // the browser goes back
  delete globalThis.document;
  delete globalThis.getComputedStyle;
});

test("waiting says what is waited for: the computation, or a download of a size", () => {
  const wordsOf = (node) =>
    Array.isArray(node) ? node.map(wordsOf).join("") : (node?.props ? wordsOf(node.props.children) : String(node ?? ""));
  const waiting = (received, total) =>
    wordsOf(statusOf({ draw() {} }, { status: "loading", started: performance.now() - 1000, progress: { received, total }, cancel() {} }));
  assert.match(waiting(0, 0), /^Computing the heads…/);
  assert.match(waiting(1_500_000, 3_000_000), /^Receiving 1\.5 of 3\.0 MB/);
});

const longAxis = (n, more = {}) => ({
  ...{ n, labels: Array.from({ length: n }, (_, t) => `w${t}`), types: Array(n).fill(0), special: Array(n).fill(false) },
  offsets: Array.from({ length: n }, (_, t) => [2 * t, 2 * t + 1]),
  ...more,
});

test("a text is its tokens and what stands between them, with both ends that are cut off", () => {
  const axis = longAxis(3, { offsets: [[0, 0], [2, 3], [4, 5]], special: [true, false, false], labels: ["[CLS]", "b", "c"] }); // prettier-ignore
  const { spans, rest } = spansOf(axis, "a b c d", 0);
  assert.deepEqual(spans.map(({ words, between, cut }) => [words, between, cut]), [["[CLS]", "", false], ["b", "a ", true], ["c", " ", false]]); // prettier-ignore
  assert.equal(rest, " d");
});

test("a long text is cut into blocks that end with sentences, and loses nothing", () => {
  const n = 1000;
  const text = "a ".repeat(n);
  const { spans } = spansOf(longAxis(n), text, 0);
  const sentences = Array.from({ length: n }, (_, t) => (t < 700 ? Math.floor(t / 30) : 99));
  const blocks = blocksOf(spans, { n: 3000, sentences });
  assert.deepEqual(blocks.map(({ from }) => from), [0, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 660, 740, 820, 900, 980]); // prettier-ignore
  assert.ok(blocks.every(({ from, to, spans: own }) => own.length === to - from));
  assert.equal(blocks.map(({ spans: own, tail }) => own.map(({ between, words }) => between + words).join("") + tail).join(""), text.trim()); // prettier-ignore
  assert.deepEqual(blocksOf([], { n, sentences: [] }), []);
  assert.equal(blocksOf(spans.slice(0, 512), { n: 512, sentences }).length, 1); // a short text is one
});

test("a token without an element is thought where its block would have it", () => {
  const block = { left: 0, right: 100, top: 0, bottom: 60 };
  assert.deepEqual(placeIn(block, 0.5, 30), { left: 0, right: 0, top: 30, bottom: 60 });
  assert.deepEqual(placeIn(block, 0.25, 30), { left: 50, right: 50, top: 0, bottom: 30 });
});

test("rows and columns of chosen tokens are their relations, whichever are here", () => {
  const answer = (attention, similarity) => ({ parts: { attention: Float32Array.from(attention), similarity: Float32Array.from(similarity) } }); // prettier-ignore
  const row = answer([0.25, 0.5, 0.25], [9, 2, 4]);
  const column = answer([0, 1, 0.5], [4, 1, 8]);
  const pairs = { i: [0, 5], j: [9, 6], normalized: [1, 0.5] };
  const rows = fetchedRows({ n: 3, types: [0, 0, 0] }, [{ t: 0, row, column: null }, { t: 2, row: null, column }], 4, pairs);
  const related = (chosen, relation) => relationOf(rows, chosen, relation);
  assert.deepEqual([...related([0], "to")], [0.25, 0.5, 0.25]);
  assert.deepEqual([...related([0], "similar")], [0, 0.5, 1]); // N, and 0 for itself
  assert.equal(related([0], "from"), null);
  assert.deepEqual([...related([2], "from")], [0, 1, 0.5]);
  assert.deepEqual([...related([0, 2], "similar")], [0.5, 0.375, 0.5]);
  assert.equal(related([0, 2], "to"), null); // of the second token it is not known
  assert.equal(related([], "to"), null);
  const lines = (t, relation) => attentionEnds(rows, 0, new Set([t]), relation).strongest.map(({ i, j, value }) => [i, j, value]);
  assert.deepEqual(lines(0, "to"), [[0, 1, 0.5], [0, 2, 0.25]]); // prettier-ignore
  assert.deepEqual(lines(2, "from"), [[1, 2, 1]]);
  assert.deepEqual(lines(1, "to"), []);
  assert.deepEqual(partRequest({ ...INITIAL, text: "a" }, { layer: 1, head: 2 }, 7, 4000, true).columns, [7, 8]);
  assert.deepEqual(pairEnds(rows, 0.1, new Set(), (t) => t === 6), { count: 2, strongest: [{ i: 5, j: 6, value: 0.5, lane: 0 }] }); // prettier-ignore
});
