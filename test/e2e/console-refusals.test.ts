import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import { startChromium } from "../support/chromium.ts";
import { openConsole } from "../support/console.ts";
import { eventually } from "../support/eventually.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { exchange, post } from "../support/raw-http.ts";

let browser: Browser & AsyncDisposable;

beforeAll(async () => {
  browser = await startChromium();
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

/** What went wrong on two routes: the filter that finds it, and what the console says about it. */
const told: readonly (readonly [filter: string, says: readonly string[], isMessage: boolean])[] = [
  [
    "route:strict gateway:invalid_params",
    ["Refused by a check of the gateway: invalid_params", "/params/name breaks the rule", "schema.type"],
    true,
  ],
  [
    "route:strict tool:wrong",
    ["Allowed, but it failed: upstream_invalid", "/result/content breaks the rule", "schema.type"],
    true,
  ],
  [
    "route:strict tool:broken",
    ["Allowed, but it failed: upstream_invalid", "the upstream's response is not valid", "event.not-json"],
    true,
  ],
  ["kind:http route:strict", ["Refused by a check of the gateway: unsupported_media_type", "application/json"], false],
  ["kind:http target:*nowhere", ["Refused by a check of the gateway: not_found", "nothing is served here"], false],
];

describe("the console", () => {
  it("[SC-030, SC-064] says of everything that went wrong what it was, and on which route", async () => {
    await using upstream = await legacyUpstream(async (call, { id, params }) => {
      if (id === undefined) return call.replyRaw(202);
      if (params?.["name"] === "broken") return call.reply({ jsonrpc: "2.0", id, result: "text" });
      return call.reply({ jsonrpc: "2.0", id, result: { content: "text" } });
    });
    const server = { url: upstream.url, transport: "streamable-http", era: "legacy" } as const;
    await using opened = await openConsole({
      upstream: undefined,
      routes: { strict: { upstream: server, validation: "schema" }, other: { upstream: { demo: true } } },
    });
    const { origin } = new URL(opened.url);
    const session = await openSession(`${origin}/strict/mcp`);
    await session.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: 5 } });
    await session.post(toolCall(2, "wrong"));
    await session.post(toolCall(3, "broken"));
    await post(`${origin}/strict/mcp`, "x", { "content-type": "text/plain" });
    await exchange(`${origin}/nowhere`);

    await using context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(opened.signInUrl());
    await page.getByRole("option").first().waitFor();
    expect(await page.getByRole("option").filter({ hasText: "broken" }).innerText()).toContain("strict");
    for (const [filter, says, isMessage] of told) {
      const found = await eventually(async () => {
        const { json } = await opened.ask(`/exchanges?filter=${encodeURIComponent(filter)}`);
        const [newest] = (json as { exchanges: readonly ExchangeRecord[] }).exchanges;
        if (newest === undefined) throw new Error(`nothing is recorded for ${filter}`);
        return newest;
      });
      await page.goto(`${opened.consoleUrl}#/exchange/${encodeURIComponent(found.id)}`);
      for (const text of says) await page.getByText(text).first().waitFor();
      expect(await page.getByRole("region", { name: "Where the time went" }).count()).toBe(isMessage ? 1 : 0);
    }
    expect(problems).toEqual([]);
  });
});
