// The viewer's modules depend on each other without circles, and folders in one direction.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import test from "node:test";
import assert from "node:assert/strict";

const source = join(dirname(fileURLToPath(import.meta.url)), "../../static/src");
const filesIn = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesIn(join(folder, entry.name)) : /\.tsx?$/.test(entry.name) ? [join(folder, entry.name)] : [],
  );
const files = filesIn(source);

// Types included: who reads a module has to read those too.
const importsOf = (file) =>
  [...readFileSync(file, "utf8").matchAll(/^(?:import|export) [^;]*?from "(\.[^"]+)";/gms)]
    .map(([, path]) => files.find((known) => known.replace(/\.tsx?$/, "") === join(dirname(file), path)))
    .filter(Boolean);
const graph = new Map(files.map((file) => [file, importsOf(file)]));
const name = (file) => relative(source, file);

test("modules have no circular imports", () => {
  const done = new Set();
  const visit = (file, path) => {
    assert.ok(!path.includes(file), [...path, file].map(name).join(" -> "));
    if (done.has(file)) return;
    for (const next of graph.get(file)) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  assert.ok(files.length > 50);
});

test("app/ knows nothing above it", () => {
  const above = files
    .filter((file) => name(file).startsWith("app/"))
    .flatMap((file) => graph.get(file).map((other) => [name(file), name(other)]))
    .filter(([, to]) => !to.startsWith("app/"));
  assert.deepEqual(above, []);
});

test("a view knows no other view", () => {
  const folder = (path) => path.split("/").slice(0, 2).join("/");
  const known = files
    .filter((file) => name(file).startsWith("views/"))
    .flatMap((file) => graph.get(file).map((other) => [name(file), name(other)]))
    .filter(([from, to]) => to.startsWith("views/") && folder(from) !== folder(to));
  assert.deepEqual(known, []);
});

test("only views and the start know views", () => {
  const known = files
    .filter((file) => /^(app|maps|heads|passes|ui|saving|story|opened)\//.test(name(file)))
    .flatMap((file) => graph.get(file).map((other) => [name(file), name(other)]))
    .filter(([, to]) => to.startsWith("views/"));
  assert.deepEqual(known, []);
});

test("maps/ knows app/ alone", () => {
  const known = files
    .filter((file) => name(file).startsWith("maps/"))
    .flatMap((file) => graph.get(file).map((other) => [name(file), name(other)]))
    .filter(([, to]) => !/^(app|maps)\//.test(to));
  assert.deepEqual(known, []);
});
