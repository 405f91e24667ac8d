// Writes a C file that holds every file of the built viewer, plain and gzipped: node embed.mjs DIR OUT.c
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";

const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  txt: "text/plain; charset=utf-8",
  svg: "image/svg+xml",
  png: "image/png",
  json: "application/json",
  woff2: "font/woff2",
  ico: "image/x-icon",
};

const [dir, out] = process.argv.slice(2);
const walk = (d) =>
  readdirSync(d)
    .sort()
    .flatMap((name) => {
      const path = join(d, name);
      return statSync(path).isDirectory() ? walk(path) : [path];
    });
const bytes = (name, data) => {
  const rows = [];
  for (let i = 0; i < data.length; i += 32) rows.push([...data.subarray(i, i + 32)].join(","));
  return `static const unsigned char ${name}[] = {\n${rows.join(",\n")}};\n`;
};

let arrays = "";
const entries = walk(dir).map((path, n) => {
  const data = readFileSync(path);
  const gzip = gzipSync(data, { level: 9 });
  const etag = createHash("sha256").update(data).digest("hex").slice(0, 16);
  const type = TYPES[path.split(".").pop()] ?? "application/octet-stream";
  arrays += bytes(`file_${n}`, data) + bytes(`file_${n}_gzip`, gzip);
  return (
    `    { "/${relative(dir, path)}", "${type}", "\\"${etag}\\"", file_${n}, sizeof file_${n}, ` +
    `file_${n}_gzip, sizeof file_${n}_gzip },`
  );
});
writeFileSync(
  out,
  `/* Made by static/embed.mjs. */\n#include "server/base/viewer_files.h"\n\n${arrays}
const hs_viewer_file hs_viewer_files[] = {\n${entries.join("\n")}\n};
const size_t hs_n_viewer_files = sizeof hs_viewer_files / sizeof *hs_viewer_files;\n`,
);
