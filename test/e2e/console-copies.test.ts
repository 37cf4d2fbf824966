import { execFile } from "node:child_process";
import { symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import { startChromium } from "../support/chromium.ts";
import { openConsole } from "../support/console.ts";
import { openConsolePage } from "../support/console-page.ts";
import { eventually } from "../support/eventually.ts";
import { headgateBin, testFolder } from "../support/headgate-command.ts";
import { connectV2 } from "../support/v2-client.ts";

const key = formatApiKey(new Uint8Array(32).fill(1));
const auth = { authenticators: { robots: { apiKeys: { keys: { ci: { hash: hashApiKey(key) } } } } } };
const nodeModules = resolve(import.meta.dirname, "../../node_modules");
const run = promisify(execFile);

let browser: Browser & AsyncDisposable;

beforeAll(async () => {
  browser = await startChromium();
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

async function copied(page: Page, name: string): Promise<string> {
  await page.evaluate(`navigator.clipboard.writeText("")`);
  await page.getByRole("group", { name: "Copy as" }).getByRole("button", { name, exact: true }).click();
  return eventually(async () => {
    const text = await page.evaluate("navigator.clipboard.readText()");
    if (typeof text !== "string" || text === "") throw new Error("nothing was copied yet");
    return text;
  });
}

describe("what the console copies", () => {
  it.each([
    ["2025-11-25", "without a key", undefined],
    ["2026-07-28", "without a key", undefined],
    ["2025-11-25", "with a key of the caller", key],
    ["2026-07-28", "with a key of the caller", key],
  ] as const)("makes a recorded call again, of %s, %s", async (revision, _name, token) => {
    await using opened = await openConsole(token === undefined ? {} : { auth });
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    await using client = await connectV2({ via: "http", url: opened.url, headers }, revision);
    await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
    const permissions = ["clipboard-read", "clipboard-write"];
    await using at = await openConsolePage(browser, opened, "live?filter=tool:add", { permissions });
    await at.page.getByRole("option", { name: /add/u }).first().click();
    using folder = testFolder();
    symlinkSync(nodeModules, join(folder.path, "node_modules"));
    const env = { ...process.env, HEADGATE_TOKEN: token };
    const asShell = async (text: string): Promise<string> => {
      // The command as it would be, if it were installed.
      const installed = `headgate() { '${process.execPath}' '${headgateBin}' "$@"; }\n`;
      return (await run("sh", ["-c", installed + text], { env, cwd: folder.path })).stdout;
    };
    expect(await asShell(await copied(at.page, "headgate call"))).toContain("2 + 40 = 42");
    expect(await asShell(await copied(at.page, "curl"))).toContain("2 + 40 = 42");
    folder.write("copied.test.ts", await copied(at.page, "test"));
    const vitest = join(nodeModules, "vitest/vitest.mjs");
    const { stdout } = await run(process.execPath, [vitest, "run", "--root", folder.path], { env, cwd: folder.path });
    expect(stdout).toMatch(/Tests.*1 passed/u);
  });
});
