// Starts the server on a free port for the whole run, and stops it. Two models, to compare them; a folder for
// corpus runs, empty at the beginning.
import { spawn } from "node:child_process";
import { mkdirSync, openSync, rmSync } from "node:fs";

export default async function start(): Promise<() => Promise<void>> {
  const binary = process.env.HEADSCOPE ?? "../build/headscope";
  mkdirSync("../build", { recursive: true });
  const state = "../build/browser-test-state";
  rmSync(state, { recursive: true, force: true });
  const log = openSync("../build/browser-test-server.log", "w");
  const server = spawn(
    binary,
    [
      ...["serve", "--listen", "127.0.0.1:0", "--state", state],
      ...["--model", "mini=../model/mini", "--model", "twin=../model/mini"],
    ],
    { stdio: ["ignore", "pipe", log] },
  );
  const ended = new Promise<void>((done) => server.once("exit", () => done()));
  process.env.HEADSCOPE_URL = await new Promise<string>((ready, fail) => {
    let said = "";
    server.stdout.on("data", (data) => {
      said += data;
      const address = /http:\/\/\S+/.exec(said)?.[0];
      if (address) ready(`${address.replace(/\/$/, "")}/`);
    });
    server.once("error", fail);
    server.once("exit", (code) => fail(new Error(`${binary} ended with ${code} before it was ready`)));
  });
  return async () => {
    server.kill("SIGTERM");
    await ended;
  };
}
