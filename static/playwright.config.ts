// The viewer against the real server, in Debian's Chromium. HEADSCOPE names the binary.
import { cpus } from "node:os";
import { defineConfig } from "@playwright/test";
import { executablePath } from "./chromium.mjs";

export default defineConfig({
  testDir: "e2e",
  outputDir: "../build/browser-test",
  snapshotPathTemplate: "{testDir}/reference/{arg}{ext}",
  // One more than cores, since tests also wait. Each has a server and a state folder of its own (e2e/server.ts).
  workers: cpus().length < 4 ? cpus().length + 1 : 4,
  reporter: "list",
  // A test that passes the second time is listed as flaky.
  retries: process.env.CI ? 1 : 0,
  // For what would otherwise wait for ever; no test measures time with them.
  timeout: 600_000,
  expect: {
    timeout: 120_000,
    toHaveScreenshot: { maxDiffPixelRatio: 0.05, threshold: 0.25, animations: "disabled" },
  },
  use: {
    viewport: { width: 1280, height: 800 },
    launchOptions: {
      executablePath,
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
});
