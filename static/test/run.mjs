// Runs every *.test.mjs under node --test, after esbuild has bundled it with the TypeScript modules it tests. This
// works on Node 18, which has no glob patterns and no type stripping.
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../../build/viewer-test");
const tests = readdirSync(here).filter((name) => name.endsWith(".test.mjs"));
rmSync(out, { recursive: true, force: true });
await build({
  entryPoints: tests.map((name) => join(here, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "empty" },
  target: "node18",
  sourcemap: process.env.NODE_V8_COVERAGE ? "external" : false,
  logLevel: "warning",
});
const { status } = spawnSync(process.execPath, ["--test", ...tests.map((name) => join(out, name))], {
  stdio: "inherit",
});
process.exit(status ?? 1);
