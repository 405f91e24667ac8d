// Starts a server on a free port for one worker of the tests. It has two models, to compare them, or those given, and a
// folder for corpus runs, empty at first.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, openSync, readdirSync, rmSync } from "node:fs";

export interface Served {
  home: string;
  stop(): Promise<void>;
}

const TWO = ["mini=../model/mini", "twin=../model/mini"];

// Writes checkpoints with task heads and a causal one; returns them as options of the server.
export function taskModels(worker: number): string[] {
  const folder = `../build/browser-test-models-${worker}`;
  rmSync(folder, { recursive: true, force: true });
  execFileSync(process.env.PYTHON ?? "python3", ["e2e/models.py", folder], { stdio: "inherit" });
  return readdirSync(folder).map((name) => `${name}=${folder}/${name}`);
}

export async function serve(
  worker: number | string,
  models: readonly string[] = TWO,
  more: readonly string[] = [],
): Promise<Served> {
  const binary = process.env.HEADSCOPE ?? "../build/headscope";
  mkdirSync("../build", { recursive: true });
  const state = `../build/browser-test-state-${worker}`;
  rmSync(state, { recursive: true, force: true });
  const log = openSync(`../build/browser-test-server-${worker}.log`, "w");
  const server = spawn(
    binary,
    [
      ...["serve", "--listen", "127.0.0.1:0", "--state", state],
      ...models.flatMap((model) => ["--model", model]),
      ...more,
    ],
    { stdio: ["ignore", "pipe", log] },
  );
  const ended = new Promise<void>((done) => server.once("exit", () => done()));
  const home = await new Promise<string>((ready, fail) => {
    let said = "";
    server.stdout.on("data", (data) => {
      said += data;
      const address = /http:\/\/\S+/.exec(said)?.[0];
      if (address) ready(`${address.replace(/\/$/, "")}/`);
    });
    server.once("error", fail);
    server.once("exit", (code) => fail(new Error(`${binary} ended with ${code} before it was ready`)));
  });
  return {
    home,
    async stop() {
      server.kill("SIGTERM");
      await ended;
    },
  };
}
