import { join } from "node:path";

import { EventSource } from "eventsource";
import { describe, expect, it } from "vitest";

import { EventSourceClient } from "../../examples/clients/typescript/event-source-client.ts";
import { FetchClient } from "../../examples/clients/typescript/fetch-client.ts";
import { startProcess, type RunningProcess } from "../support/process.ts";
import { serveTestKit } from "../support/served-kit.ts";

const clients = join(import.meta.dirname, "../../examples/clients");
const list = ["TrialSite_List", '{"pageSize":10}'] as const;
const guarded = { settings: { requireAuthentication: true } };

async function outputOf(running: RunningProcess): Promise<{ code: number | null; text: string }> {
  const { code } = await running.exited;
  return { code, text: running.output() };
}

describe("the command-line clients", () => {
  it("[KO-131] in TypeScript calls a tool with a token", async () => {
    await using kit = await serveTestKit(guarded);
    const main = join(clients, "typescript/main.ts");
    await using run = await startProcess([process.execPath, main, kit.url, ...list, await kit.token()]);
    const { code, text } = await outputOf(run);
    expect(JSON.parse(text)).toMatchObject({ items: [{}, {}, {}] });
    expect(code).toBe(0);
  });

  it("[KO-131] [KO-145] in Python, with the standard library only, calls a tool and raises the server's error", async () => {
    await using kit = await serveTestKit(guarded);
    const main = join(clients, "python/mcp_client.py");
    await using run = await startProcess(["python3", "-I", main, kit.url, ...list, await kit.token()]);
    const { code, text } = await outputOf(run);
    expect(JSON.parse(text)).toMatchObject({ items: [{}, {}, {}] });
    expect(code).toBe(0);
    await using refused = await startProcess(["python3", "-I", main, kit.url, ...list, await kit.token("other")]);
    const failed = await outputOf(refused);
    expect(failed.code).toBe(1);
    expect(failed.text).toMatch(/clinical:operations/u);
    expect(failed.text).not.toContain("Traceback");
  });

  it("[KO-131] with curl walks from the token to the reply", async () => {
    await using kit = await serveTestKit(guarded);
    const script = join(clients, "curl/walk-through.sh");
    await using run = await startProcess(["sh", script, kit.origin, ...list]);
    const { code, text } = await outputOf(run);
    expect(JSON.parse(text)).toMatchObject({ id: 1, result: { structuredContent: { items: [{}, {}, {}] } } });
    expect(code).toBe(0);
    await expect.poll(async () => (await kit.kit.health()).activeConnections).toBe(0);
  });
});

describe("the sample server", () => {
  it("[KO-131] serves all three clients, with the document's scope and token issuer", async () => {
    const main = join(import.meta.dirname, "../../examples/medtrials/main.ts");
    await using server = await startProcess([process.execPath, main, "--port", "0"], {
      env: { NODE_ENV: "development" },
    });
    const [, origin = ""] = await server.waitForLine(/Address: (http\S+)/u);
    const url = `${origin}/mcp`;
    const names = (data: unknown) => (data as { items: { name: string }[] }).items.map(({ name }) => name).toSorted();
    const expected = ["Fjord Clinic", "Harbour Hospital", "Lakeside Institute"];
    await using typescript = await startProcess([process.execPath, join(clients, "typescript/main.ts"), url, ...list]);
    expect(names(JSON.parse((await outputOf(typescript)).text))).toEqual(expected);
    await using python = await startProcess(["python3", "-I", join(clients, "python/mcp_client.py"), url, ...list]);
    expect(names(JSON.parse((await outputOf(python)).text))).toEqual(expected);
    await using curl = await startProcess(["sh", join(clients, "curl/walk-through.sh"), origin, ...list]);
    const reply = JSON.parse((await outputOf(curl)).text) as { result: { structuredContent: unknown } };
    expect(names(reply.result.structuredContent)).toEqual(expected);
  });
});

describe("the Python client as a module", () => {
  it("[KO-145] uses one stream, fails a call whose stream ends first, and one whose time is over", async () => {
    const kit = await serveTestKit({ settings: { transport: { shutdownTimeout: 0 } } });
    const program = `
import sys
sys.path.insert(0, ${JSON.stringify(join(clients, "python"))})
from mcp_client import McpClient, McpError
with McpClient(sys.argv[1], timeout=0.2) as impatient:
    try:
        impatient.call_tool("Probe_Wait")
    except McpError as error:
        print("late:", error, flush=True)
with McpClient(sys.argv[1]) as client:
    print("first:", client.call_tool("Probe_Big", {"bytes": 3}), flush=True)
    try:
        client.call_tool("Probe_Wait")
    except McpError as error:
        print("lost:", error, flush=True)
`;
    await using run = await startProcess(["python3", "-B", "-c", program, kit.url]);
    await run.waitForLine(/^late: no reply within 0.2 seconds$/u);
    await run.waitForLine(/^first: xxx$/u);
    await expect.poll(() => kit.waits.waiting).toBe(1);
    expect((await kit.kit.health()).activeConnections).toBe(1);
    await kit[Symbol.asyncDispose]();
    await run.waitForLine(/^lost: the server ended the stream$/u);
    expect((await run.exited).code).toBe(0);
  });
});

describe.each([
  ["EventSource", (url: string, timeoutMs: number) => new EventSourceClient(url, { EventSource, timeoutMs })],
  ["fetch", (url: string, timeoutMs: number) => new FetchClient(url, { timeoutMs })],
])("the TypeScript client on %s", (_name, create) => {
  it("[KO-145] uses one stream for all calls and matches replies by id", async () => {
    await using kit = await serveTestKit();
    const client = create(kit.url, 30_000);
    const slow = client.callTool("Probe_Wait");
    expect(await client.callTool("Probe_Big", { bytes: 4 })).toBe("xxxx");
    expect(await client.callTool("TrialSite_List")).toMatchObject({ items: [{}, {}, {}] });
    expect((await kit.kit.health()).activeConnections).toBe(1);
    await expect.poll(() => kit.waits.waiting).toBe(1);
    kit.release();
    expect(await slow).toBe("done");
    client.close();
  });

  it("[KO-132] rejects a call with the server's error, and one that is not accepted", async () => {
    await using kit = await serveTestKit({ settings: { transport: { maxRequestBytes: 1000 } } });
    const client = create(kit.url, 30_000);
    await expect(client.callTool("No_Such")).rejects.toThrow(/No_Such/u);
    await expect(client.callTool("Probe_Big", { bytes: "x".repeat(2000) })).rejects.toThrow(/not accepted: 413/u);
    expect(await client.callTool("Probe_Big", { bytes: 1 })).toBe("x");
    client.close();
  });

  it("[KO-132] fails all calls that wait when the server ends the stream, and then uses a new session", async () => {
    await using kit = await serveTestKit({ settings: { sseConnectionTimeout: "1h" } });
    const client = create(kit.url, 30_000);
    const first = await client.connect();
    const waiting = [client.callTool("Probe_Wait"), client.callTool("Probe_Wait")];
    await expect.poll(() => kit.waits.waiting).toBe(2);
    client.close();
    for (const call of waiting) await expect(call).rejects.toThrow(/closed|abort/u);
    await expect.poll(async () => (await kit.kit.health()).activeConnections).toBe(0);
    expect(await client.callTool("Probe_Big", { bytes: 1 })).toBe("x");
    expect(await client.connect()).not.toBe(first);
    client.close();
  });

  it("[KO-132] takes an end, and a connection that breaks, for what they are", async () => {
    const gone = await serveTestKit({ settings: { transport: { shutdownTimeout: 0 } } });
    const client = create(gone.url, 30_000);
    const call = client.callTool("Probe_Wait");
    await expect.poll(() => gone.waits.waiting).toBe(1);
    const outcome = call.catch(String);
    await gone[Symbol.asyncDispose]();
    expect(await outcome).toMatch(/the server ended the stream/u);
    await expect(client.callTool("Probe_Wait")).rejects.toThrow(/fetch failed|lost|refused/u);
    client.close();
  });

  it("[KO-145] fails a call whose time is over", async () => {
    await using kit = await serveTestKit();
    const client = create(kit.url, 200);
    await expect(client.callTool("Probe_Wait")).rejects.toThrow(/no reply within 200 ms/u);
    client.close();
    kit.release();
  });
});
