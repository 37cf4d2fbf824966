import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

import type { AxeResults } from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startChromium } from "../support/chromium.ts";
import { buildConsole, openConsole, openConsoleTraffic } from "../support/console.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { exchange } from "../support/raw-http.ts";

const built = resolve(import.meta.dirname, "../../dist/console");
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser: Browser & AsyncDisposable;
let traffic: Awaited<ReturnType<typeof openConsoleTraffic>>;

beforeAll(async () => {
  [browser, traffic] = await Promise.all([startChromium(), openConsoleTraffic()]);
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
  await traffic[Symbol.asyncDispose]();
});

/** A page that has signed in; what it logs as errors is collected. */
async function signedIn(opened: { readonly signInUrl: () => string }, width = 1280) {
  // Axe itself is code from outside the page, which the page's own rules would not let in.
  const context = await browser.newContext({ viewport: { width, height: 800 }, bypassCSP: false });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes("ERR_CONNECTION_REFUSED")) problems.push(message.text());
  });
  await page.goto(opened.signInUrl());
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  return { page, problems, [Symbol.asyncDispose]: () => context.close() };
}

async function seriousProblems(page: Page): Promise<readonly unknown[]> {
  // Runs in a world of its own, as browser extensions do.
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  await session.send("Runtime.evaluate", { expression: axeSource, contextId: executionContextId });
  const { result } = await session.send("Runtime.evaluate", {
    expression: "axe.run(document).then((found) => JSON.stringify(found))",
    contextId: executionContextId,
    awaitPromise: true,
  });
  const { violations } = JSON.parse(String(result.value)) as AxeResults;
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => ({ id, at: nodes.map(({ html, failureSummary }) => [html, failureSummary]) }));
}

describe("the console", () => {
  it("shows the call that a newcomer just made, why it was allowed and how long each part took", async () => {
    await using at = await signedIn(traffic);
    const detail = at.page.getByRole("complementary", { name: "The chosen exchange" });
    await detail.getByText("Allowed by rule small-sums").waitFor();
    await detail.getByText("mcp.arguments.a < 1000.0").waitFor();
    const timing = detail.getByRole("region", { name: "Where the time went" });
    for (const part of ["gateway, request", "policy", "server", "gateway, answer"])
      expect(await timing.getByText(part).count()).toBe(1);
    await detail.getByRole("tab", { name: "Messages" }).click();
    expect(await detail.getByRole("region", { name: "Client side" }).innerText()).toContain("2 + 40 = 42");
    expect(at.problems).toEqual([]);
    // The ticket is not left in the address.
    expect(at.page.url()).toBe(`${traffic.consoleUrl}#/live`);
  });

  it("follows traffic, filters it and says what is wrong with a filter", async () => {
    await using at = await signedIn(traffic);
    const rows = at.page.getByRole("option");
    await at.page.keyboard.press("/");
    await at.page.keyboard.type("denied");
    await eventually(async () => expect(await rows.count()).toBe(1));
    expect(await rows.first().innerText()).toContain("no-failures");
    await at.page.getByLabel("Filter").fill("tool:add nonsense:x");
    await at.page.getByRole("alert").getByText("unknown term").waitFor();
    await at.page.getByLabel("Filter").fill("tool:whoami");
    await at.page.getByText("Nothing matches this filter").waitFor();
    await using client = await traffic.connect();
    await client.sdk.callTool({ name: "whoami", arguments: {} }).catch(() => {});
    await eventually(async () => expect(await rows.count()).toBe(1));
  });

  it("can be used with the keyboard alone", async () => {
    await using at = await signedIn(traffic);
    const { keyboard } = at.page;
    await at.page.getByRole("option").first().waitFor();
    await at.page.getByRole("listbox", { name: "Exchanges" }).focus();
    await keyboard.press("ArrowDown");
    await keyboard.press("Enter");
    await at.page.getByRole("button", { name: "← Back" }).waitFor();
    await keyboard.press("Control+k");
    await at.page.getByRole("combobox", { name: "Command" }).and(at.page.locator(":focus")).waitFor();
    await keyboard.type("go to fig");
    await keyboard.press("Enter");
    await at.page.getByText("What is used most").waitFor();
    await keyboard.press("g");
    await keyboard.press("s");
    await at.page.getByText("Last seen").waitFor();
    expect(at.problems).toEqual([]);
  });

  it.each([1280, 380])("has nothing that axe finds serious in any view, %i pixels wide", async (width) => {
    await using at = await signedIn(traffic, width);
    for (const colorScheme of ["light", "dark"] as const) {
      await at.page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      for (const { view, path, ready } of traffic.places) {
        await at.page.goto(`${traffic.consoleUrl}#/${path}`);
        await at.page.getByText(ready).first().waitFor();
        expect({ view, colorScheme, problems: await seriousProblems(at.page) }).toEqual({
          view,
          colorScheme,
          problems: [],
        });
        const overflow = await at.page.evaluate("document.documentElement.scrollWidth - innerWidth");
        expect({ view, overflow }).toEqual({ view, overflow: 0 });
      }
    }
    expect(at.problems).toEqual([]);
  });

  it("takes a link once, and says what to do when the session is over", async () => {
    const link = traffic.signInUrl();
    await using at = await signedIn({ signInUrl: () => link });
    await using other = await browser.newContext();
    const page = await other.newPage();
    await page.goto(link);
    await page.getByText("this link was used already").waitFor();
    await at.page.context().clearCookies();
    await at.page.goto(`${traffic.consoleUrl}#/figures`);
    await at.page.getByText("headgate console").waitFor();
    expect(await at.page.getByRole("navigation").count()).toBe(0);
  });

  it("goes on after a restart of the gateway", async () => {
    const port = await freePort();
    const first = await openConsole({ admin: { port } });
    await using at = await signedIn(first);
    await at.page.getByText("No traffic yet").waitFor();
    await first[Symbol.asyncDispose]();
    await at.page.getByText("connection lost").waitFor();
    await using second = await openConsole({ admin: { port } });
    await at.page.getByRole("status").getByText("live", { exact: true }).waitFor();
    await using client = await second.connect();
    await client.sdk.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    await at.page.getByRole("option", { name: /add/u }).first().waitFor();
    expect(await at.page.getByRole("option", { name: /add/u }).count()).toBe(1);
  });

  it("is served under another path by a proxy, with rules that keep other code out", async () => {
    const page = await exchange(traffic.consoleUrl);
    expect(page.headers["content-security-policy"]).toMatch(/default-src 'none'.*require-trusted-types-for 'script'/u);
    expect(page.headers["content-security-policy"]).not.toContain("unsafe");
    expect(page.text).not.toMatch(/(?:src|href)="\//u);
    expect((await exchange(traffic.consoleUrl.replace(/\/$/u, ""))).headers.location).toBe("console/");
    for (const name of ["../package.json", "%2e%2e/package.json", "assets/../../package.json", "nothing.js"])
      expect((await exchange(`${traffic.consoleUrl}${name}`)).status).toBe(404);
  });

  it("is at most 60 KB to the first view and 120 KB in all, compressed", async () => {
    await buildConsole();
    const sizes = readdirSync(join(built, "assets")).map((name) => ({
      name,
      bytes: gzipSync(readFileSync(join(built, "assets", name))).length,
    }));
    const sum = (names: typeof sizes): number => names.reduce((total, { bytes }) => total + bytes, 0);
    expect(sum(sizes.filter(({ name }) => name.startsWith("index-")))).toBeLessThan(60_000);
    expect(sum(sizes)).toBeLessThan(120_000);
  });
});
