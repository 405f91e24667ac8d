// TypeScript types of the schemas of an OpenAPI document: node openapi.mjs OPENAPI.json OUT.ts
// Knows what our document uses: objects, arrays, enumerations, alternatives and references.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const [from, to] = process.argv.slice(2);
const { components } = JSON.parse(readFileSync(from, "utf8"));
const PLAIN = { string: "string", number: "number", integer: "number", boolean: "boolean", null: "null" };

function typeOf(schema) {
  if (schema === true || Object.keys(schema).length === 0) return "unknown";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  // Alternatives of an object say which members must be there together: types have no word for that.
  if (schema.type === "object" || schema.properties) return objectOf(schema);
  for (const some of [schema.oneOf, schema.anyOf]) if (some) return some.map((s) => `(${typeOf(s)})`).join(" | ");
  if (schema.allOf) return schema.allOf.map((s) => `(${typeOf(s)})`).join(" & ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => `(${typeOf({ ...schema, type })})`).join(" | ");
  if (schema.type === "array") return schema.items ? `(${typeOf(schema.items)})[]` : "unknown[]";
  if (PLAIN[schema.type]) return PLAIN[schema.type];
  throw new Error(`no type for ${JSON.stringify(schema).slice(0, 200)}`);
}

function objectOf({ properties = {}, required = [], additionalProperties }) {
  const members = Object.entries(properties).map(
    ([name, schema]) =>
      `${schema.description ? `  /** ${schema.description.replaceAll("*/", "* /")} */\n` : ""}` +
      `  ${JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${typeOf(schema)};`,
  );
  if (additionalProperties && additionalProperties !== true)
    members.push(`  [name: string]: ${typeOf(additionalProperties)};`);
  return members.length ? `{\n${members.join("\n")}\n}` : "Record<string, unknown>";
}

mkdirSync(dirname(to), { recursive: true });
writeFileSync(
  to,
  `// Made by static/openapi.mjs from ${from}.\n\n${Object.entries(components.schemas)
    .map(([name, schema]) => `export type ${name} = ${typeOf(schema)};\n`)
    .join("\n")}`,
);
