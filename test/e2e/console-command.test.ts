import { chmodSync, readFileSync } from "node:fs";
import { delimiter } from "node:path";

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startChromium } from "../support/chromium.ts";
import { buildConsole } from "../support/console.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { headgate, headgateBin, testFolder } from "../support/headgate-command.ts";
import { startProcess } from "../support/process.ts";

let browser: Browser & AsyncDisposable;

beforeAll(async () => {
  [browser] = await Promise.all([startChromium(), buildConsole()]);
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

/** As `npm start` in a checkout, on a port of its own. */
const asScript = { npm_package_name: "headgate", npm_command: "run", npm_lifecycle_event: "start" };

describe("the link that a gateway prints", () => {
  it("shows, one click later, the call that somebody just made, why it was allowed and how long each part took", async () => {
    using folder = testFolder();
    const env = { ...asScript, XDG_DATA_HOME: folder.path };
    await using gateway = await startProcess([process.execPath, headgateBin, "--port", "0"], {
      cwd: folder.path,
      env,
    });
    const [, link = ""] = await gateway.waitForLine(/console, signed in: +(\S+)$/u);
    const [, call = ""] = await gateway.waitForLine(/^ +npm run -s headgate -- (call \S+ add .*)$/u);
    const { stdout } = await headgate(call.split(" "), { env });
    expect(stdout).toContain("2 + 40 = 42");
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(link);
    const detail = page.getByRole("complementary", { name: "The chosen exchange" });
    await detail.getByRole("heading", { name: "add tools/call" }).waitFor();
    await detail.getByText("Allowed: this route has no policy").waitFor();
    const timing = detail.getByRole("region", { name: "Where the time went" });
    for (const part of ["gateway, request", "server", "gateway, answer"])
      expect(await timing.getByText(part).count()).toBe(1);
    await detail.getByRole("tab", { name: "Messages" }).click();
    await detail.getByText("2 + 40 = 42").first().waitFor();
    await page.close();
    // Somebody without a link is told what to type here.
    const stranger = await browser.newPage();
    await stranger.goto(link.replace(/#.*/u, ""));
    await stranger.getByText("npm run -s headgate -- console").waitFor();
    await stranger.close();
  });

  it("is made again by `headgate console`, which opens it in the browser", async () => {
    using folder = testFolder();
    const opened = `${folder.path}/opened`;
    chmodSync(folder.write("xdg-open", `#!/bin/sh\nprintf %s "$1" > '${opened}'\n`), 0o755);
    const env = { XDG_DATA_HOME: folder.path, PATH: `${folder.path}${delimiter}${process.env["PATH"] ?? ""}` };
    await using gateway = await startProcess([process.execPath, headgateBin, "--port", "0"], { cwd: folder.path, env });
    const [, origin = ""] = await gateway.waitForLine(/console, signed in: +(http:\/\/[^/]+)/u);
    const { stdout, exitCode } = await headgate(["console", "--url", origin], { env });
    expect(exitCode).toBe(0);
    const link = await eventually(() => {
      const text = readFileSync(opened, "utf8");
      expect(text).toBe(stdout.trim());
      return text;
    });
    const page = await browser.newPage();
    await page.goto(link);
    await page.getByText("No traffic yet").waitFor();
    await page.getByText(/call http:\S+ add a=2 b=40/u).waitFor();
    await page.getByRole("main").getByRole("link", { name: "playground" }).click();
    await page.getByRole("button", { name: /^add/u }).waitFor();
    await page.close();
  });

  it("says where it looked when no gateway answers", async () => {
    using folder = testFolder();
    const env = { XDG_DATA_HOME: folder.path };
    const ended = await headgate(["console", "--no-open", "--url", "http://127.0.0.1:1"], { env });
    expect(ended.exitCode).not.toBe(0);
    expect(ended.stderr).toContain("no gateway answers at http://127.0.0.1:1");
  });

  it("finds the gateway of the configuration in the folder", async () => {
    using folder = testFolder();
    const env = { XDG_DATA_HOME: folder.path };
    const port = await freePort();
    folder.write(
      "headgate.yaml",
      `listen: { port: 0 }\nadmin: { port: ${port} }\nupstream: { demo: true }\nrecord: false\n`,
    );
    await using gateway = await startProcess([process.execPath, headgateBin], { cwd: folder.path, env });
    await gateway.waitForLine(/console/u);
    const found = await headgate(["console", "--no-open"], { env, cwd: folder.path });
    expect(found.stdout).toContain(`http://127.0.0.1:${port}/console/`);
  });
});
