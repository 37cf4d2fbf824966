import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";

import { expectAccessible } from "../support/axe.ts";
import { startChromium } from "../support/chromium.ts";
import { openConsole } from "../support/console.ts";
import { openConsolePage } from "../support/console-page.ts";
import { freePort } from "../support/free-port.ts";

let browser: Browser & AsyncDisposable;

beforeAll(async () => {
  browser = await startChromium();
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

const paths = ["live", "sessions", "sessions/tool:*", "figures", "playground", "policy", "drift", "held"];

it.each([1280, 380])(
  "says in every view that the gateway is away, and goes on after it, %i pixels wide",
  async (width) => {
    const port = await freePort();
    const first = await openConsole({ admin: { port } });
    await using opened = await openConsolePage(browser, first, "live", { width });
    const problems: string[] = [];
    opened.context.on("weberror", (problem) => problems.push(problem.error().message));
    const pages = await Promise.all(
      paths.map(async (path) => {
        const page = await opened.context.newPage();
        await page.goto(`${first.consoleUrl}#/${path}`);
        await page.getByRole("navigation", { name: "Views" }).waitFor();
        return page;
      }),
    );
    await first[Symbol.asyncDispose]();
    const away = "What is shown may be out of date";
    for (const page of pages) await page.getByRole("status").getByText(away).waitFor();
    const [page] = pages;
    if (page !== undefined) await expectAccessible(page, "a gateway that is away");
    await using _second = await openConsole({ admin: { port } });
    for (const one of pages) await one.getByRole("status").getByText(away).waitFor({ state: "detached" });
    expect(problems).toEqual([]);
  },
);
