import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

import { inputRequired, inputResponse, McpServer, ProtocolError } from "@modelcontextprotocol/server";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";

import { startChromium } from "../support/chromium.ts";
import { temporaryFolder } from "../support/capture-file.ts";
import { openConsole } from "../support/console.ts";
import { eventually } from "../support/eventually.ts";

let browser: Browser & AsyncDisposable;

beforeAll(async () => {
  browser = await startChromium();
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

/** A picture of one pixel. */
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** What would run, load or hide something if any view took it for more than text, or push something out of sight. */
const payloads = [
  `<img src=x onerror="document.title='owned'">`,
  `<script>document.title='owned'</script>`,
  `"><svg onload="document.title='owned'">`,
  `javascript:document.title='owned'`,
  `{{constructor.constructor("document.title='owned'")()}}`,
  `\u202Etxt.exe\u200B\u{E0041}`,
  "a_word_without_an_end_".repeat(12),
].join(" ");

const question = {
  message: payloads,
  requestedSchema: {
    type: "object",
    properties: {
      [payloads]: { type: "string", title: payloads, description: payloads, default: payloads },
      choice: { type: "string", title: payloads, enum: [payloads, "b"] },
    },
  },
} as const;

/** A server that puts the payload into every string that a server can send. */
function hostileServer(): McpServer {
  const server = new McpServer(
    { name: payloads, title: payloads, version: payloads },
    { capabilities: { logging: {} }, instructions: payloads },
  );
  server.registerTool(
    "hostile",
    {
      title: payloads,
      description: payloads,
      inputSchema: z.object({ [`field ${payloads}`]: z.string().optional().describe(payloads) }),
    },
    async (_args, { mcpReq }) => {
      await mcpReq.log("error", payloads, payloads);
      return {
        content: [
          { type: "text", text: payloads },
          { type: "resource_link", uri: `javascript:document.title='owned'`, name: payloads, description: payloads },
          { type: "image", data: "PHN2Zy8+", mimeType: `image/svg+xml${payloads}` },
          { type: "image", data: pixel, mimeType: "image/png" },
        ],
        structuredContent: { [payloads]: payloads },
      };
    },
  );
  server.registerTool("asking", { description: payloads, inputSchema: z.object({}) }, async (_args, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    const params = { progress: 1, total: 2, message: payloads };
    if (progressToken !== undefined)
      await mcpReq.notify({ method: "notifications/progress", params: { progressToken, ...params } });
    const answer = inputResponse(mcpReq.inputResponses, "question");
    if (answer.kind === "elicit") throw new ProtocolError(-32_099, payloads, payloads);
    return inputRequired({ inputRequests: { question: inputRequired.elicit(question) } });
  });
  server.registerTool("failing", { description: payloads, inputSchema: z.object({}) }, () => {
    throw new Error(payloads);
  });
  server.registerResource(
    payloads,
    "javascript:document.title='owned'",
    { title: payloads, description: payloads },
    () => ({
      contents: [{ uri: "javascript:document.title='owned'", mimeType: "text/html", text: payloads }],
    }),
  );
  server.registerPrompt("hostile", { title: payloads, description: payloads }, () => ({
    messages: [{ role: "user", content: { type: "text", text: payloads } }],
  }));
  return server;
}

interface Listed {
  readonly id: string;
  readonly session?: string;
  readonly state: string;
  readonly target?: string;
}

async function openHostile() {
  const folder = temporaryFolder();
  const lock = folder.write("lock.json", JSON.stringify({ format: 1, routes: { default: {} } }));
  const opened = await openConsole({ drift: { lock, mode: "warn" } }, { demo: async () => hostileServer() });
  await using client = await opened.connect();
  await client.sdk.listTools();
  await client.sdk.listResources();
  await client.sdk.listPrompts();
  await client.sdk.callTool({ name: "hostile", arguments: {} });
  await client.sdk.callTool({ name: "failing", arguments: {} }).catch(() => {});
  await client.sdk.readResource({ uri: "javascript:document.title='owned'" }).catch(() => {});
  await client.sdk.callTool({ name: payloads, arguments: { [payloads]: payloads } }).catch(() => {});
  const ids = await eventually(async () => {
    const { json } = await opened.ask("/exchanges");
    const { exchanges } = json as { readonly exchanges: readonly Listed[] };
    expect(exchanges.length).toBeGreaterThanOrEqual(8);
    expect(exchanges.every(({ state }) => state !== "open")).toBe(true);
    return exchanges;
  });
  const session = ids.find((one) => one.session !== undefined)?.session ?? "";
  return Object.assign(opened, {
    paths: [
      "live",
      ...ids.map(({ id }) => `exchange/${encodeURIComponent(id)}`),
      "sessions",
      `sessions/${encodeURIComponent(`session:"${session}"`)}`,
      "figures",
      "playground",
      "policy",
      "drift",
      `live?filter=${encodeURIComponent(payloads)}`,
      `exchange/${encodeURIComponent(payloads)}`,
      `sessions/${encodeURIComponent(payloads)}`,
      encodeURIComponent(payloads),
    ],
    hostile: ids.find(({ target }) => target === "hostile")?.id ?? "",
    end: () => folder[Symbol.dispose](),
  });
}

/** Opens every part of a view that is not shown at once. */
async function lookEverywhere(page: Page): Promise<void> {
  for (const tab of await page.getByRole("tab").all()) await tab.click({ timeout: 2000 }).catch(() => {});
  for (const choice of await page.locator(".choices button").all())
    await choice.click({ timeout: 2000 }).catch(() => {});
}

/** Uses everything that the server offers, and answers what it asks. */
async function useEverything(page: Page): Promise<void> {
  const choices = page.locator(".choices button");
  await choices.first().waitFor();
  for (const choice of await choices.all()) {
    await choice.click();
    await page.getByRole("button", { name: /^(?:Call|Read|Get)$/u }).click();
    const asked = page.getByRole("alertdialog", { name: "The server asks" });
    const over = page.getByRole("region", { name: "Try it" }).locator("section[aria-live]");
    await asked.or(over).first().waitFor();
    if ((await asked.count()) > 0) {
      expect(await asked.innerText()).toContain("<img src=x");
      await asked.getByRole("button", { name: "Answer" }).click();
      await over.waitFor();
    }
    await expectNothingRan(page);
  }
}

async function expectNothingRan(page: Page): Promise<void> {
  const strange = await page.evaluate(
    `[...document.querySelectorAll("#app script, #app iframe, #app [onerror], #app [onload], #app img:not([src='./icon.svg']), #app a[href^='javascript']")].map((one) => one.outerHTML)`,
  );
  expect({ at: page.url(), title: await page.title(), strange }).toEqual({
    at: page.url(),
    title: expect.stringContaining("Headgate") as string,
    strange: [],
  });
}

/** Nothing is wider than the place that it stands in; tables, code and drawings scroll in a place of their own. */
async function expectInSight(page: Page): Promise<void> {
  for (const width of [1280, 380]) {
    await page.setViewportSize({ width, height: 900 });
    const wider = await page.evaluate(
      `[...document.querySelectorAll("html, .view, .head, .scroll, .detail, .exchange, .chosen, .choices, .panel > header, .panel > .body")]
        .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className || one.tagName)`,
    );
    expect({ at: page.url(), width, wider }).toEqual({ at: page.url(), width, wider: [] });
  }
  await page.setViewportSize({ width: 1280, height: 900 });
}

describe("the console in front of a hostile server", () => {
  it("shows every string that a server or a client sends as text, and nothing of it runs", async () => {
    await using opened = await openHostile();
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    const elsewhere: string[] = [];
    page.on("dialog", (dialog) => elsewhere.push(`dialog: ${dialog.message()}`));
    page.on("request", (one) => {
      if (!one.url().startsWith(opened.adminUrl ?? "nowhere")) elsewhere.push(one.url());
    });
    page.on("console", (message) => {
      if (/content security policy|trusted/iu.test(message.text())) elsewhere.push(message.text());
    });
    await page.goto(opened.signInUrl());
    await page.getByRole("navigation", { name: "Views" }).waitFor();
    for (const path of opened.paths) {
      await page.goto(`${opened.consoleUrl}#/${path}`);
      await page.getByRole("main").first().waitFor();
      await page.waitForLoadState("networkidle").catch(() => {});
      await lookEverywhere(page);
      await expectNothingRan(page);
      await expectInSight(page);
    }
    await page.goto(`${opened.consoleUrl}#/playground`);
    await useEverything(page);
    await page.goto(`${opened.consoleUrl}#/held?hold=${encodeURIComponent("tool:hostile")}`);
    // An address fills the filter in; holding traffic takes a person.
    await page.getByText("Interceptors can hold messages").waitFor();
    await page.getByRole("button", { name: "Hold what matches" }).click();
    await page.getByText("Matching messages are held here").waitFor();
    await using client = await opened.connect();
    const call = client.sdk.callTool({ name: "hostile", arguments: { [payloads]: payloads } });
    const held = page.getByRole("article", { name: "Held: hostile" });
    // First the request, then the answer.
    for (const phase of ["request", "response"]) {
      await held.getByText(phase, { exact: true }).waitFor();
      await lookEverywhere(page);
      await expectNothingRan(page);
      await held.getByRole("tab", { name: "Release" }).click();
      await held.getByRole("button", { name: "Release" }).click();
    }
    await call;
    expect(elsewhere).toEqual([]);
    // Characters that cannot be seen are shown.
    await page.goto(`${opened.consoleUrl}#/drift`);
    await page.getByText("U+202E").first().waitFor();
    // An image is drawn when somebody asks for it, and then as nothing but an image.
    await page.goto(`${opened.consoleUrl}#/exchange/${encodeURIComponent(opened.hostile)}`);
    await page.getByRole("tab", { name: "Messages" }).click();
    const show = page.getByRole("button", { name: /^Show the image \(image\/png/u });
    await show.first().waitFor();
    expect(await page.locator("#app img[src^='blob:']").count()).toBe(0);
    await show.first().click();
    await page.locator("#app img[src^='blob:']").waitFor();
    await context.close();
    opened.end();
  });

  it("works under a path of a proxy", async () => {
    await using opened = await openConsole();
    const origin = new URL(opened.adminUrl ?? "");
    let isAway = false;
    const proxy = createServer((incoming, outgoing) => {
      if (isAway) {
        outgoing.writeHead(502, { "content-type": "text/html" }).end("<h1>Bad gateway</h1>");
        return;
      }
      const path = (incoming.url ?? "").replace(/^\/ops\/gate/u, "");
      const onward = request(
        { host: origin.hostname, port: origin.port, path, method: incoming.method, headers: incoming.headers },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(outgoing);
        },
      );
      onward.on("error", () => outgoing.destroy());
      outgoing.on("close", () => onward.destroy());
      incoming.pipe(onward);
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const { port } = proxy.address() as AddressInfo;
    const context = await browser.newContext();
    const page = await context.newPage();
    const [, ticket = ""] = opened.signInUrl().split("#");
    await page.goto(`http://127.0.0.1:${port}/ops/gate/console#${ticket}`);
    await page.getByText("No traffic yet").waitFor();
    await page.getByRole("link", { name: /Figures/u }).click();
    await page.getByText("No requests in this time").waitFor();
    expect(new URL(page.url()).pathname).toBe("/ops/gate/console/");
    // While the gateway restarts the proxy answers with errors, after which browsers do not try again.
    await page.getByRole("link", { name: /Live/u }).click();
    const status = page.getByRole("status");
    await status.getByText("live", { exact: true }).waitFor();
    isAway = true;
    proxy.closeAllConnections();
    await status.getByText("connection lost").waitFor();
    await page.waitForResponse((answer) => answer.status() === 502);
    isAway = false;
    await status.getByText("live", { exact: true }).waitFor();
    await using client = await opened.connect();
    await client.sdk.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    await page.getByRole("option", { name: /add/u }).first().waitFor();
    await context.close();
    proxy.closeAllConnections();
    proxy.close();
  });
});
