// The page /docs: requests, answers and fields of an OpenAPI document, without a script, so that every policy allows it.
//   node reference.mjs OPENAPI.json DIR     writes docs.html and docs.css
// Knows what our document uses.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [from, to] = process.argv.slice(2);
const api = JSON.parse(readFileSync(from, "utf8"));
const METHODS = ["get", "post", "put", "patch", "delete"];

const escape = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
const code = (text) => `<code>${escape(text)}</code>`;
const resolve = (part) => (part.$ref ? part.$ref.split("/").slice(1).reduce((at, name) => at[name], api) : part);
const nameOf = (part) => part.$ref?.split("/").pop();

// ---- types ----

function typeOf(schema) {
  if (typeof schema === "boolean" || Object.keys(schema).length === 0) return "anything";
  if (schema.$ref) return `<a href="#${nameOf(schema)}">${escape(nameOf(schema))}</a>`;
  if ("const" in schema) return code(JSON.stringify(schema.const));
  if (schema.enum) return schema.enum.map((value) => code(JSON.stringify(value))).join(", ");
  // Alternatives of an object say which members must be there together: the table of its members has them.
  if (schema.properties) return "object";
  for (const some of [schema.oneOf, schema.anyOf]) if (some) return some.map(typeOf).join(" or ");
  if (schema.allOf) return schema.allOf.map(typeOf).join(" and ");
  const types = [schema.type].flat();
  return types.map((type) => (type === "array" ? listOf(schema) : type === "object" ? mapOf(schema) : type)).join(" or ");
}

function listOf({ items, minItems, maxItems }) {
  const counts = [
    minItems === undefined || minItems === maxItems ? "" : `at least ${minItems}`,
    maxItems === undefined ? "" : minItems === maxItems ? `${minItems}` : `at most ${maxItems}`,
  ].filter(Boolean);
  return `list${items ? ` of ${typeOf(items)}` : ""}${counts.length ? ` (${counts.join(", ")})` : ""}`;
}

function mapOf({ additionalProperties }) {
  return additionalProperties && additionalProperties !== true ? `object of ${typeOf(additionalProperties)} by name` : "object";
}

function limitsOf(schema) {
  const limits = [];
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, maxLength, format } = schema;
  if (minimum !== undefined && maximum !== undefined) limits.push(`${minimum} to ${maximum}`);
  else if (minimum !== undefined) limits.push(`at least ${minimum}`);
  else if (maximum !== undefined) limits.push(`at most ${maximum}`);
  if (exclusiveMinimum !== undefined) limits.push(`more than ${exclusiveMinimum}`);
  if (exclusiveMaximum !== undefined) limits.push(`less than ${exclusiveMaximum}`);
  if (maxLength !== undefined) limits.push(`at most ${maxLength} characters`);
  if (format) limits.push(escape(format));
  if ("default" in schema) limits.push(`default ${code(JSON.stringify(schema.default))}`);
  return limits.join("; ");
}

// The objects within a schema that have no name of their own, with the path that leads to their members.
function inner(schema, path) {
  if (typeof schema === "boolean" || schema.$ref) return [];
  if (schema.properties) return [[schema, path && `${path}.`]];
  return [
    ...(schema.items ? inner(schema.items, `${path}[]`) : []),
    ...(typeof schema.additionalProperties === "object" ? inner(schema.additionalProperties, `${path}.*`) : []),
    ...[...(schema.oneOf ?? []), ...(schema.anyOf ?? [])].flatMap((some) => inner(some, path)),
  ];
}

function rowsOf(schema, prefix = "") {
  return Object.entries(schema.properties ?? {}).flatMap(([name, member]) => [
    row(`${prefix}${name}`, member, schema.required?.includes(name)),
    ...inner(member, `${prefix}${name}`).flatMap(([object, path]) => rowsOf(object, path)),
  ]);
}

function row(name, schema, required) {
  const about = [limitsOf(schema), escape(schema.description ?? "")].filter(Boolean);
  return `<tr><th scope="row">${code(name)}${required ? " <b>required</b>" : ""}</th><td>${typeOf(schema)}</td><td>${about.join(". ")}</td></tr>`;
}

const table = (caption, heads, rows) =>
  rows.length
    ? `<div class="wide" tabindex="0" role="group" aria-label="${escape(caption)}"><table><caption>${escape(caption)}</caption>
<thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join("")}</tr></thead><tbody>
${rows.join("\n")}
</tbody></table></div>`
    : "";

// ---- examples ----

// JSON with short lists and objects on one line.
function pretty(value, indent = "") {
  const line = JSON.stringify(value);
  if (line.length + indent.length <= 96 || typeof value !== "object" || value === null) return line;
  const deeper = `${indent}  `;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Array.isArray(value)
    ? value.map((one) => pretty(one, deeper))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${pretty(one, deeper)}`);
  return `${open}\n${parts.map((part) => deeper + part).join(",\n")}\n${indent}${close}`;
}

const example = (title, text) => `<details><summary>${escape(title)}</summary><pre tabindex="0">${escape(text)}</pre></details>`;
const textOf = (value) => (typeof value === "string" ? value : pretty(value));
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const ADDRESS = "http://127.0.0.1:8080";
const indented = (text) => text.replaceAll("\n", "\n  ");

// A request in four languages: {url, method, type, body}, the last two undefined without a body. JSON is written as it
// is, in each language's literal without escapes; tests run all of them.
const LANGUAGES = {
  curl({ url, method, type, body }) {
    const parts = [`curl -s ${quoted(url)}`];
    if (method !== "GET" && method !== "POST") parts.push(`-X ${method}`);
    if (body !== undefined) parts.push(`-H ${quoted(`Content-Type: ${type}`)}`, `--data-binary ${quoted(body)}`);
    else if (method === "POST") parts.push("-d ''");
    return parts.join(" \\\n     ");
  },
  Python({ url, method, type, body }) {
    const rest = body === undefined ? `method="${method}"` : `body.encode(), {"Content-Type": "${type}"}`;
    const text = body === undefined ? "" : `body = r"""${body}"""\n`;
    return `import urllib.request\n${text}request = urllib.request.Request("${url}", ${rest})\nprint(urllib.request.urlopen(request).read())`;
  },
  R({ url, method, type, body }) {
    const step = body === undefined ? `req_method("${method}")` : `req_body_raw(r"---(${body})---", "${type}")`;
    return `library(httr2)\nanswer <- request("${url}") |>\n  ${step} |>\n  req_perform()`;
  },
  JavaScript({ url, method, type, body }) {
    const text = type === "application/json" ? `JSON.stringify(${indented(body)})` : JSON.stringify(body);
    const sent = body === undefined ? "" : `,\n  headers: { "Content-Type": "${type}" },\n  body: ${text}`;
    return `const answer = await fetch("${url}", {\n  method: "${method}"${sent},\n});\nconsole.log(await answer.text());`;
  },
};

const inLanguages = (title, request) =>
  `<details><summary>${escape(title)}</summary>${Object.entries(LANGUAGES)
    .map(([language, write]) => `<p class="muted">${language}</p><pre tabindex="0" data-language="${language}">${escape(write(request))}</pre>`)
    .join("\n")}</details>`;

// Where a request goes: RUN and NAME stand for the path's parts, the least value for what its query needs.
function urlOf(path, parameters) {
  const query = parameters
    .filter((one) => one.in === "query" && one.required)
    .map(({ name, schema }) => `${name}=${resolve(schema).enum?.[0] ?? resolve(schema).minimum ?? 0}`);
  return `${ADDRESS}${path.replace("{id}", "RUN").replace("{name}", "NAME")}${query.length ? `?${query.join("&")}` : ""}`;
}

function requestExamples(path, method, parameters, content = {}) {
  const request = { url: urlOf(path, parameters), method: method.toUpperCase() };
  const found = Object.entries(content).flatMap(([type, { example: one, examples = {} }]) => [
    ...(one === undefined ? [] : [[type, type, one]]),
    ...Object.entries(examples).map(([name, { summary, value }]) => [type, summary ?? name, value]),
  ]);
  if (!found.length && !Object.keys(content).length) return inLanguages("Request", request);
  return found.map(([type, title, value]) => inLanguages(title, { ...request, type, body: textOf(value) })).join("\n");
}

// ---- operations ----

function contentRows(name, description, content = {}) {
  const types = Object.entries(content);
  if (!types.length) return [`<tr><th scope="row">${name}</th><td></td><td>${escape(description)}</td></tr>`];
  return types.map(([type, { schema = true }], n) => {
    const about = [n === 0 ? escape(description) : "", escape(schema.description ?? "")].filter(Boolean).join(" ");
    return `<tr><th scope="row">${n === 0 ? name : ""}</th><td>${code(type)}<br>${typeOf(schema)}</td><td>${about}</td></tr>`;
  });
}

function responseParts(responses) {
  const rows = [];
  const errors = [];
  for (const [status, response] of Object.entries(responses)) {
    if (response.$ref) errors.push(`<a href="#${nameOf(response)}">${status}</a>`);
    else rows.push(...contentRows(status, response.description, response.content));
  }
  const examples = Object.entries(responses).flatMap(([status, { content = {} }]) =>
    Object.entries(content)
      .filter(([, { example: one }]) => one !== undefined)
      .map(([type, { example: one }]) => example(`Answer ${status}, ${type}`, textOf(one))),
  );
  return [
    table("Answers", ["status", "content", "meaning"], rows),
    examples.join("\n"),
    errors.length ? `<p>Errors: ${errors.join(", ")}.</p>` : "",
  ];
}

function operation(path, method, shared, it) {
  const parameters = [...shared, ...(it.parameters ?? [])].map(resolve);
  const rows = parameters.map(({ name, schema = {}, description, required, in: place }) =>
    row(place === "path" ? `{${name}}` : name, { ...schema, description: description ?? schema.description }, required),
  );
  const content = it.requestBody?.content ?? {};
  const open = it.security?.length === 0 ? "<p>Needs no token.</p>" : "";
  return `<section id="${it.operationId}"><h3><span class="method">${method.toUpperCase()}</span> ${code(path)}</h3>
<p>${escape(it.summary)}.</p>
${[
  it.description ? `<p>${escape(it.description)}</p>` : "",
  open,
  table("Parameters", ["name", "type", "meaning"], rows),
  Object.keys(content).length
    ? table(
        "Body",
        ["", "content", "meaning"],
        Object.entries(content).flatMap(([type, one]) => contentRows("", "", { [type]: one })),
      )
    : "",
  requestExamples(path, method, parameters, content),
  ...responseParts(it.responses),
]
  .filter(Boolean)
  .join("\n")}
</section>`;
}

const operations = Object.entries(api.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method]).map((method) => ({ path, method, shared: item.parameters ?? [], it: item[method] })),
);
const groups = api.tags.map((tag) => ({ ...tag, members: operations.filter(({ it }) => it.tags[0] === tag.name) }));
const lost = operations.filter(({ it }) => !groups.some(({ name }) => it.tags[0] === name));
if (lost.length) throw new Error(`no tag for ${lost.map(({ path }) => path).join(", ")}`);

// ---- the page ----

const schemas = Object.entries(api.components.schemas).map(([name, schema]) => {
  const rows = [...rowsOf(schema), ...inner({ ...schema, properties: undefined }, "").flatMap(([object, path]) => rowsOf(object, path))];
  return `<section id="${name}"><h3>${code(name)}</h3>
${schema.description ? `<p>${escape(schema.description)}</p>` : ""}
${rows.length ? table(`Members of ${name}`, ["member", "type", "meaning"], rows) : `<p>${typeOf(schema)}</p>`}
</section>`;
});
const errors = Object.entries(api.components.responses).map(([name, { description, headers = {} }]) => {
  const about = Object.entries(headers).map(([header, { schema }]) => ` ${code(header)}: ${escape(schema?.description ?? "")}`);
  return `<tr id="${name}"><th scope="row">${escape(name)}</th><td>${escape(description)}${about.join("")}</td></tr>`;
});
const link = (id, text) => `<li><a href="#${id}">${text}</a></li>`;

mkdirSync(to, { recursive: true });
copyFileSync(join(dirname(fileURLToPath(import.meta.url)), "reference.css"), join(to, "docs.css"));
writeFileSync(
  join(to, "docs.html"),
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="docs.css">
<title>HTTP interface of ${escape(api.info.title)} ${escape(api.info.version)}</title>
</head>
<body>
<nav aria-label="Contents">
<p><a href="./">Viewer</a> · <a href="openapi.json">openapi.json</a></p>
${groups
  .map(
    ({ name, members }) => `<h2>${escape(name)}</h2>
<ul>
${members.map(({ path, method, it }) => link(it.operationId, `<span class="method">${method.toUpperCase()}</span> ${escape(path)}`)).join("\n")}
</ul>`,
  )
  .join("\n")}
<h2>Errors and types</h2>
<ul>
${link("errors", "Errors")}
${Object.keys(api.components.schemas)
  .map((name) => link(name, escape(name)))
  .join("\n")}
</ul>
</nav>
<main>
<h1>HTTP interface of ${escape(api.info.title)} ${escape(api.info.version)}</h1>
<p>${escape(api.info.description)}</p>
<p>This page is made from <a href="openapi.json">openapi.json</a>, which programs read. Its examples in curl, Python, R and JavaScript ask a server at http://127.0.0.1:8080; RUN is the id of a run and NAME a name. A server with tokens wants the header ${code("Authorization: Bearer TOKEN")} with each request that does not say otherwise.</p>
${groups
  .map(({ name, description, members }) =>
    [
      `<h2>${escape(name)}</h2>`,
      description ? `<p>${escape(description)}</p>` : "",
      ...members.map(({ path, method, shared, it }) => operation(path, method, shared, it)),
    ].join("\n"),
  )
  .join("\n")}
<section id="errors"><h2>Errors</h2>
<p>The body of an error is a <a href="#Problem">Problem</a> as ${code("application/problem+json")}.</p>
${table("Errors", ["name", "meaning"], errors)}
</section>
<h2>Types</h2>
${schemas.join("\n")}
</main>
</body>
</html>
`,
);
