// The types of openapi-typescript, as a program uses them: node fetch.js ADDRESS
import createClient from "openapi-fetch";
import type { components, paths } from "./made/types.js";

declare const process: { argv: string[] };
const client = createClient<paths>({ baseUrl: process.argv[2]! });
const request: components["schemas"]["AnalyzeRequest"] = {
  text: "The river is [MASK].", layers: [0, -1], outputs: ["attentions", "pairs", "predictions"], predictions: { top_k: 3 },
};

const { data, error } = await client.POST("/analyze", { body: request });
if (!data) throw new Error(error?.detail);
const answer: components["schemas"]["AnalyzeAnswer"] = data as components["schemas"]["AnalyzeAnswer"];
const binary = await client.POST("/analyze", { body: request, headers: { Accept: "application/x-npz" }, parseAs: "arrayBuffer" });
const refused = await client.POST("/analyze", { body: { text: "a", threshold: 2 } });
const models = await client.GET("/models");
console.log(JSON.stringify({
  tokens: answer.tokens, maps: answer.attentions?.length, npz: [...new Uint8Array(binary.data!).subarray(0, 2)],
  pointer: refused.error?.pointer, model: models.data?.models[0]?.name,
}));
