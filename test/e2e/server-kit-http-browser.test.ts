import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { basename, join } from "node:path";

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { EventSourceClient } from "../../examples/clients/typescript/event-source-client.ts";
import type { Principal } from "../../src/core/exchange.ts";
import { startChromium } from "../support/chromium.ts";
import { listenOnLoopback, type LoopbackServer } from "../support/demo-http.ts";
import { serveTestKit } from "../support/served-kit.ts";

const clients = join(import.meta.dirname, "../../examples/clients/typescript");

const html = `<!doctype html><title>page</title>
<script type="module">
  import { EventSourceClient } from "/event-source-client.ts";
  globalThis.EventSourceClient = EventSourceClient;
</script>`;

/** Serves a page and the sample client, as a web application of another origin would. */
async function servePages(): Promise<LoopbackServer> {
  return listenOnLoopback((request, response) => {
    const name = basename(request.url ?? "");
    if (name.endsWith(".ts")) {
      const code = stripTypeScriptTypes(readFileSync(join(clients, name), "utf8"));
      response.writeHead(200, { "content-type": "text/javascript" }).end(code);
    } else {
      response.writeHead(200, { "content-type": "text/html" }).end(html);
    }
  });
}

interface Ask {
  readonly url: string;
  readonly token?: string;
  readonly withCredentials?: boolean;
  readonly calls: readonly (readonly [tool: string, args: Record<string, unknown>])[];
}

/** Runs the sample client inside the page, on the browser's own EventSource. */
async function callFrom(page: Page, ask: Ask): Promise<unknown[]> {
  return page.evaluate(async ({ url, calls, ...options }) => {
    const page_ = globalThis as unknown as { readonly EventSourceClient: typeof EventSourceClient };
    const client = new page_.EventSourceClient(url, options);
    const results: unknown[] = [];
    try {
      for (const [tool, args] of calls) results.push(await client.callTool(tool, args));
      return results;
    } catch (error) {
      return [...results, String(error)];
    } finally {
      client.close();
    }
  }, ask);
}

describe("a page with native EventSource in Chromium", () => {
  let browser: Browser & AsyncDisposable;
  let pages: LoopbackServer;
  beforeAll(async () => {
    browser = await startChromium();
    pages = await servePages();
  });
  afterAll(async () => {
    await browser?.close();
    await pages?.[Symbol.asyncDispose]();
  });

  async function openPage(): Promise<Page> {
    const page = await browser.newPage();
    await page.goto(pages.origin);
    return page;
  }

  it("[KO-102] [KO-109] [KO-110] calls tools of another origin with a query token on the stream", async () => {
    await using kit = await serveTestKit({
      settings: { requireAuthentication: true, enableCors: true, allowedOrigins: [pages.origin] },
    });
    const page = await openPage();
    const [listed, big] = await callFrom(page, {
      url: kit.url,
      token: await kit.token(),
      calls: [
        ["TrialSite_List", { pageSize: 2 }],
        ["Probe_Big", { bytes: 100_000 }],
      ],
    });
    expect(listed).toMatchObject({ items: [{}, {}], nextCursor: expect.any(String) });
    expect(big).toHaveLength(100_000);
    await page.close();
    await expect.poll(async () => (await kit.kit.health()).activeConnections).toBe(0);
  });

  it("[KO-132] [KO-145] raises the server's error in the page, and goes on", async () => {
    await using kit = await serveTestKit({ settings: { enableCors: true, allowedOrigins: [pages.origin] } });
    const page = await openPage();
    const [error] = await callFrom(page, { url: kit.url, calls: [["No_Such_Tool", {}]] });
    expect(error).toMatch(/No_Such_Tool/u);
    const [listed] = await callFrom(page, { url: kit.url, calls: [["TrialSite_List", {}]] });
    expect(listed).toMatchObject({ items: expect.any(Array) });
    await page.close();
  });

  it("[KO-111] [KO-112] gets nothing where its origin is not listed", async () => {
    await using kit = await serveTestKit({
      settings: { enableCors: true, allowedOrigins: ["https://ide.example.com"] },
    });
    const page = await openPage();
    const [outcome] = await callFrom(page, { url: kit.url, calls: [["TrialSite_List", {}]] });
    expect(outcome).toMatch(/refused/u);
    expect((await kit.kit.health()).activeConnections).toBe(0);
    await page.close();
  });

  it("[KO-140] calls as the user that the host's cookie names", async () => {
    const carol: Principal = {
      id: "host:carol",
      kind: "token",
      scopes: new Set(["clinical:operations"]),
      claims: {},
    };
    await using kit = await serveTestKit({
      settings: { requireAuthentication: true, enableCors: true, allowedOrigins: [pages.origin] },
      auth: {
        identify: (request) => (request.headers.get("cookie")?.includes("user=carol") === true ? carol : undefined),
      },
    });
    const page = await openPage();
    const ask: Ask = { url: kit.url, withCredentials: true, calls: [["TrialSite_List", {}]] };
    const [before] = await callFrom(page, ask);
    expect(before).toMatch(/log|auth/iu);
    await page.context().addCookies([{ name: "user", value: "carol", url: kit.origin }]);
    const [listed] = await callFrom(page, ask);
    expect(listed).toMatchObject({ items: expect.any(Array) });
    await page.close();
  });
});
