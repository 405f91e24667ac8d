// The browser of the tests and pictures: CHROMIUM, or one of Debian's packages. The shell needs half the CPU time.
import { existsSync } from "node:fs";

const INSTALLED = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

export const executablePath = process.env.CHROMIUM ?? INSTALLED.find((path) => existsSync(path));
