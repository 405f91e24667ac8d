// The client that @hey-api/openapi-ts writes, as a program uses it: node sdk.js ADDRESS
import { client } from "./made/sdk/client.gen.js";
import { analyze, listModels, tokenize } from "./made/sdk/sdk.gen.js";

declare const process: { argv: string[] };
client.setConfig({ baseUrl: process.argv[2]! as `http://${string}` });
const answer = await analyze({ body: { text: "The river is [MASK].", layers: [0, -1] } });
const binary = await analyze({ body: { text: "The river is [MASK]." }, headers: { Accept: "application/x-npz" }, parseAs: "blob" });
const tokens = await tokenize({ body: { text: "a" } });
const refused = await analyze({ body: { text: "a", threshold: 2 } });
const models = await listModels();
const json = answer.data as { tokens: string[]; attentions?: unknown[] };
const error = refused.error as { pointer?: string };
console.log(JSON.stringify({
  tokens: json.tokens, maps: json.attentions?.length, npz: [...new Uint8Array(await (binary.data as unknown as Blob).arrayBuffer()).subarray(0, 2)],
  pointer: error.pointer, model: models.data?.models[0]?.name, one: tokens.data?.tokens.length,
}));
