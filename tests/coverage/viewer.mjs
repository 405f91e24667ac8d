#!/usr/bin/env node
// Writes the table of the viewer's coverage into docs/explanation/reliability.md, between its markers.
//
//   viewer.mjs COUNTS BUNDLES DOCUMENT    COUNTS: a folder of V8's counts: coverage-*.json of node (NODE_V8_COVERAGE),
//                                         browser-*.json of Chromium (static/e2e/viewer.ts).
//                                         BUNDLES: the viewer as built, with source maps.
//
// V8 counts ranges of a script. The source map says which line of which source a place of the script comes from. A line
// is reached if any of its places was, and reached as a whole if all of them were, in one of the scripts. Chromium loads
// the bundles, node the tests' own.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const BEGIN = "<!-- viewer coverage: begin -->";
const END = "<!-- viewer coverage: end -->";
const SOURCES = fileURLToPath(new URL("../../static/src", import.meta.url));
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const [counts, bundles, document] = process.argv.slice(2);

// The numbers of a group of a source map's mappings: base 64 with a continuation bit, the sign last.
function numbers(group) {
  const found = [];
  let value = 0;
  let shift = 0;
  for (const digit of group) {
    const bits = DIGITS.indexOf(digit);
    value += (bits & 31) << shift;
    shift += 5;
    if (bits & 32) continue;
    found.push(value & 1 ? -(value >> 1) : value >> 1);
    value = shift = 0;
  }
  return found;
}

// The places of a script that come from the viewer's sources: { offset, line: "folder/file.ts:12" }, in order.
function placesOf(script) {
  const text = readFileSync(script, "utf8").split("\n");
  const map = JSON.parse(readFileSync(`${script}.map`, "utf8"));
  const names = map.sources.map((source) => relative(SOURCES, resolve(dirname(script), source)));
  const places = [];
  let source = 0;
  let line = 0;
  let start = 0;
  map.mappings.split(";").forEach((groups, row) => {
    let column = 0;
    for (const group of groups ? groups.split(",") : []) {
      const [toColumn, toSource, toLine] = numbers(group);
      column += toColumn;
      if (toSource === undefined) continue;
      source += toSource;
      line += toLine;
      if (!names[source].startsWith("..")) places.push({ offset: start + column, line: `${names[source]}:${line + 1}` });
    }
    start += text[row].length + 1;
  });
  return places;
}

// Marks the places that a test reached. The innermost range around a place has its count.
function mark(places, functions) {
  const ranges = functions.flatMap((one) => one.ranges);
  ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  const around = [];
  let next = 0;
  for (const place of places) {
    for (; next < ranges.length && ranges[next].startOffset <= place.offset; next++) {
      while (around.length && around[around.length - 1].endOffset <= ranges[next].startOffset) around.pop();
      around.push(ranges[next]);
    }
    while (around.length && around[around.length - 1].endOffset <= place.offset) around.pop();
    place.reached ||= around.length > 0 && around[around.length - 1].count > 0;
  }
}

// The file of a counted script that was bundled, or null.
function scriptOf(url) {
  const served = /^http:.*\/assets\/[^?#]*/.exec(url)?.[0];
  const path = served ? join(bundles, "assets", basename(served)) : url.startsWith("file:") ? fileURLToPath(url) : null;
  return path && existsSync(`${path}.map`) ? path : null;
}

const scripts = new Map();
for (const name of readdirSync(join(bundles, "assets")).filter((one) => one.endsWith(".js"))) {
  const path = join(bundles, "assets", name);
  scripts.set(path, placesOf(path));
}
for (const name of readdirSync(counts)) {
  for (const { url, functions } of JSON.parse(readFileSync(join(counts, name), "utf8")).result) {
    const script = scriptOf(url);
    if (!script) continue;
    if (!scripts.has(script)) scripts.set(script, placesOf(script));
    mark(scripts.get(script), functions);
  }
}

// line -> [reached in node, reached, reached as a whole]
const lines = new Map();
for (const [script, places] of scripts) {
  const here = new Map();
  for (const { line, reached = false } of places) {
    const [any, all] = here.get(line) ?? [false, true];
    here.set(line, [any || reached, all && reached]);
  }
  for (const [line, [any, all]] of here) {
    const [nodeBefore, anyBefore, allBefore] = lines.get(line) ?? [false, false, false];
    lines.set(line, [nodeBefore || (any && !script.startsWith(bundles)), any || anyBefore, all || allBefore]);
  }
}

function row(name, mine) {
  const part = (which) => `${((100 * mine.filter((one) => one[which]).length) / mine.length).toFixed(1)} %`;
  return `| ${name} | ${mine.length.toLocaleString("en")} | ${part(0)} | ${part(1)} | ${part(2)} |`;
}

const folders = new Map();
for (const [line, reached] of lines) {
  const folder = line.includes("/") ? line.slice(0, line.indexOf("/")) : "static/src";
  if (!folders.has(folder)) folders.set(folder, []);
  folders.get(folder).push(reached);
}
const table = [
  `\`make viewer-coverage\`, ${cpus()[0].model}, ${new Date().toISOString().slice(0, 10)}:`,
  "",
  "| folder | lines | reached in node | in node or Chromium | as a whole |",
  "|---|---|---|---|---|",
  ...[...folders.keys()].sort().map((folder) => row(folder, folders.get(folder))),
  row("all", [...lines.values()]),
].join("\n");
const text = readFileSync(document, "utf8");
const [before, rest] = text.split(BEGIN);
writeFileSync(document, `${before}${BEGIN}\n${table}\n${END}${rest.split(END)[1]}`);
console.log(table);
