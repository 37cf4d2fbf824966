import { setTimeout as wait } from "node:timers/promises";

import { describe, expect, it } from "vitest";

import { fillStore } from "../../bench/recorded/filled-store.ts";
import { openSqliteStore } from "../../src/recorder/store/sqlite.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { captureOf, type ToldCall } from "../support/capture.ts";
import { startChromium } from "../support/chromium.ts";
import { openConsole } from "../support/console.ts";
import { openConsolePage } from "../support/console-page.ts";
import { eventually } from "../support/eventually.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";

const recorded = 100_000;
const perBatch = 250;
const batches = 8;

function callTo(name: string, index: number, at: number): ToldCall {
  return {
    method: "tools/call",
    params: { name, arguments: { index } },
    result: { content: [{ type: "text", text: `answer ${index}` }] },
    at,
  };
}

async function* linesOf(calls: readonly ToldCall[], id: string): AsyncGenerator<CaptureLine> {
  yield* captureOf(calls, id);
}

describe("the console over much traffic", () => {
  it("lists a hundred thousand exchanges and follows thousands more, drawing only what is in sight", async () => {
    await using opened = await openConsole();
    await using store = await openSqliteStore({ file: opened.folder.at("traffic.sqlite") }, { wait: async () => {} });
    // Of the last day: what is older than a week is deleted.
    await fillStore(store, recorded, Date.now() - 60_000);
    await using browser = await startChromium();
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(opened.signInUrl());
    const rows = page.getByRole("option");
    await rows.first().waitFor();
    await page.getByRole("status").getByText("live", { exact: true }).waitFor();
    expect(await rows.count()).toBeLessThan(60);
    for (let batch = 0; batch < batches; batch++) {
      const at = Date.now();
      const own = Array.from({ length: perBatch }, (_, index) => callTo(`live_${batch}`, index, at + index));
      await store.import(linesOf(own, `live-${batch}`));
      // As fast as this machine shows them, so that nothing need be left out.
      await eventually(async () => expect(await rows.first().innerText()).toContain(`live_${batch}`));
    }
    await store.import(linesOf([callTo("the_last", 0, Date.now() + 1000)], "last"));
    // The newest is on top, although far more came than a page can show, and nothing was left out.
    await eventually(async () => expect(await rows.first().innerText()).toContain("the_last"));
    expect(await rows.count()).toBeLessThan(60);
    expect(await page.getByText("left out").count()).toBe(0);
    const scrollHeight = `document.querySelector(".rows").scrollHeight`;
    await eventually(async () => expect(await page.evaluate(scrollHeight)).toBeGreaterThan(batches * perBatch * 32));
    await page.getByRole("listbox", { name: "Exchanges" }).focus();
    await page.keyboard.press("End");
    await eventually(async () =>
      expect(await page.evaluate(`document.querySelector(".rows").scrollTop`)).toBeGreaterThan(5000),
    );
    // Scrolling goes on beyond what is kept of new traffic, and new traffic does not move what somebody looks at.
    await eventually(async () => {
      await page.keyboard.press("End");
      expect(await page.evaluate(scrollHeight)).toBeGreaterThan(5400 * 32);
    });
    await page.keyboard.press("Home");
    await page.keyboard.press("PageDown");
    await page.keyboard.press("PageDown");
    const scrollTop = `document.querySelector(".rows").scrollTop`;
    const before = Number(await page.evaluate(scrollTop));
    expect(before).toBeGreaterThan(32);
    await store.import(linesOf([callTo("on_top", 0, Date.now() + 2000)], "on-top"));
    await eventually(async () => expect(await page.evaluate(scrollTop)).toBe(before + 32));
    await page.getByLabel("Filter").fill("tool:live_0");
    await eventually(async () => expect(await rows.first().innerText()).toContain("live_0 tools/call"));
  });

  it("says what was left out of the live traffic, and counts it again", async () => {
    await using opened = await openConsole();
    await using store = await openSqliteStore({ file: opened.folder.at("traffic.sqlite") }, { wait: async () => {} });
    await store.import(linesOf([callTo("the_first", 0, Date.now())], "first"));
    await using browser = await startChromium();
    await using at = await openConsolePage(browser, opened, "live");
    await at.page.getByRole("option", { name: /the_first/u }).waitFor();
    await at.page.getByRole("status").getByText("live", { exact: true }).waitFor();
    // Far more at once than anybody could follow.
    const [now, count] = [Date.now(), 2000];
    await store.import(
      linesOf(
        Array.from({ length: count }, (_, index) => callTo("burst", index, now)),
        "burst",
      ),
    );
    await at.page.getByText(/^[\d,]+ left out$/u).waitFor();
    await at.page
      .getByText(`${(count + 1).toLocaleString("en-US")} requests`, { exact: true })
      .waitFor({ timeout: 90_000 });
    expect(at.problems).toEqual([]);
  });

  it("follows a thousand calls a second: shows the newest, and says how many others there were", async () => {
    await using opened = await openConsole();
    await using browser = await startChromium();
    await using at = await openConsolePage(browser, opened, "live");
    await at.page.getByRole("status").getByText("live", { exact: true }).waitFor();
    const [calls, perSecond, callers] = [3000, 1000, 16];
    const call = async (index: number): Promise<void> => {
      const params = { name: "add", arguments: { a: index, b: 0 } };
      const { status } = await postModern(opened.url, modernRequest(index, "tools/call", params));
      expect(status).toBe(200);
    };
    const start = performance.now();
    let next = 0;
    const callInTurn = async (): Promise<void> => {
      while (next < calls) {
        const index = next++;
        // A busy machine makes fewer, which is as good: nothing here is about time.
        await wait(Math.max(0, start + (index * 1000) / perSecond - performance.now()));
        await call(index);
      }
    };
    await Promise.all(Array.from({ length: callers }, callInTurn));
    await call(calls);
    // The total has those that were left out, and the last one is on top.
    await at.page
      .getByText(`${(calls + 1).toLocaleString("en-US")} requests`, { exact: true })
      .waitFor({ timeout: 90_000 });
    await at.page.getByRole("option").first().click();
    await at.page.getByRole("tab", { name: "Messages" }).click();
    await at.page.getByText(`${calls} + 0 = ${calls}`).first().waitFor();
    expect(await at.page.getByRole("option").count()).toBeLessThan(60);
    expect(at.problems).toEqual([]);
  });
});
