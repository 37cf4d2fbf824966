import { existsSync } from "node:fs";

import { chromium, type Browser } from "playwright-core";

const places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Starts the Chromium of this system; `npm test` installs it where it may. */
export async function startChromium(): Promise<Browser & AsyncDisposable> {
  const executablePath = process.env["CHROMIUM_PATH"] ?? places.find((path) => existsSync(path));
  if (executablePath === undefined) {
    throw new Error("this test needs Chromium: install the package `chromium`, or set CHROMIUM_PATH");
  }
  const browser = await chromium.launch({
    executablePath,
    // Root, as in most containers, cannot have Chromium's sandbox; and no page may reach anything but this machine.
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    ],
  });
  return Object.assign(browser, { [Symbol.asyncDispose]: async () => browser.close() });
}
