import { describe, expect, it } from "vitest";

import { openSqliteStore } from "../../src/recorder/store/sqlite.ts";
import { captureOf, type ToldCall } from "../support/capture.ts";
import { startChromium } from "../support/chromium.ts";
import { openConsole } from "../support/console.ts";
import { eventually } from "../support/eventually.ts";

const recorded = 10_000;
const burst = 500;

describe("the console over much traffic", () => {
  it("lists ten thousand exchanges and follows a burst, drawing only what is in sight", async () => {
    await using opened = await openConsole();
    const calls = Array.from({ length: recorded }, (_, index): ToldCall => ({
      method: "tools/call",
      params: { name: `tool_${index % 50}`, arguments: { index } },
      result: { content: [{ type: "text", text: `answer ${index}` }] },
    }));
    {
      await using store = await openSqliteStore({ file: opened.folder.at("traffic.sqlite") }, { wait: async () => {} });
      await store.import(
        (async function* () {
          yield* captureOf(calls);
        })(),
      );
    }
    await using browser = await startChromium();
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(opened.signInUrl());
    const rows = page.getByRole("option");
    await rows.first().waitFor();
    expect(await rows.count()).toBeLessThan(60);
    await using client = await opened.connect();
    const add = (a: number) => client.sdk.callTool({ name: "add", arguments: { a, b: 1 } });
    await Promise.all(Array.from({ length: burst }, (_, index) => add(index)));
    await add(123_456);
    // The newest is on top, although far more came than a page can show.
    await eventually(async () => expect(await rows.first().innerText()).toContain("add"));
    expect(await rows.count()).toBeLessThan(60);
    const list = page.getByRole("listbox", { name: "Exchanges" });
    await list.focus();
    await page.keyboard.press("End");
    await eventually(async () =>
      expect(await page.evaluate(`document.querySelector(".rows").scrollTop`)).toBeGreaterThan(5000),
    );
    await page.getByLabel("Filter").fill("tool:tool_7");
    await eventually(async () => expect(await rows.first().innerText()).toContain("tool_7"));
  });
});
