import { describe, expect, it } from "vitest";

import { revisions, type Revision } from "../../src/protocol/revisions.ts";
import { bin, headgate, temporaryFolder } from "../support/capture-file.ts";
import { captureOf, type ToldCall } from "../support/capture.ts";
import { startProcess } from "../support/process.ts";
import { post } from "../support/raw-http.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

const harbor = { name: "harbor", version: "3.0.0" };

function recordedIn(revision: Revision): readonly ToldCall[] {
  const context = { revision };
  const isModern = revisions[revision].era === "modern";
  const complete = isModern ? { resultType: "complete" } : {};
  const cached = isModern ? { ttlMs: 0, cacheScope: "private" } : {};
  const capabilities = { tools: {} };
  const handshake: ToldCall = isModern
    ? {
        method: "server/discover",
        result: {
          ...complete,
          ...cached,
          supportedVersions: [revision],
          capabilities,
          _meta: { "io.modelcontextprotocol/serverInfo": harbor },
        },
      }
    : {
        method: "initialize",
        params: { protocolVersion: revision },
        result: { protocolVersion: revision, capabilities, serverInfo: harbor },
      };
  const calls: readonly ToldCall[] = [
    handshake,
    {
      method: "tools/list",
      result: { ...complete, ...cached, tools: [{ name: "weigh", inputSchema: { type: "object" } }] },
    },
    {
      method: "tools/call",
      params: { name: "weigh", arguments: { crate: 1 } },
      before: [{ method: "notifications/progress", params: { progressToken: 0, progress: 50 } }],
      result: { ...complete, content: [{ type: "text", text: "12 kg" }] },
    },
    {
      method: "tools/call",
      params: { name: "weigh", arguments: { crate: 1 } },
      result: { ...complete, content: [{ type: "text", text: "13 kg" }] },
    },
  ];
  return calls.map((call) => ({ ...call, context }));
}

async function serve(file: string, ...args: readonly string[]) {
  const process_ = await startProcess([process.execPath, bin, "replay", file, ...args]);
  const [, url = ""] = await process_.waitForLine(/listening on (\S+)/u);
  return { url, process: process_, [Symbol.asyncDispose]: process_[Symbol.asyncDispose] };
}

describe("headgate replay", () => {
  it.each([
    { client: "SDK v1", revision: "2025-11-25", connect: (url: string) => connectV1({ via: "http", url }) },
    {
      client: "SDK v2, modern",
      revision: "2026-07-28",
      connect: (url: string) => connectV2({ via: "http", url }, "2026-07-28"),
    },
    {
      client: "SDK v2, asking first",
      revision: "2025-11-25",
      connect: (url: string) => connectV2({ via: "http", url }, "auto"),
    },
  ] as const)("[SC-070] is the recorded server to a real client ($client)", async ({ connect, revision }) => {
    using folder = temporaryFolder();
    await using server = await serve(folder.capture("a.ndjson", captureOf(recordedIn(revision))));
    await using client = await connect(server.url);
    expect(client.revision).toBe(revision);
    expect(await client.listTools()).toEqual(["weigh"]);
    const progress: number[] = [];
    const weigh = async () =>
      client.callTool("weigh", { args: { crate: 1 }, onProgress: (value) => progress.push(value) });
    expect((await weigh()).texts).toEqual(["12 kg"]);
    expect(progress).toEqual([50]);
    expect((await weigh()).texts).toEqual(["13 kg"]);
    expect((await weigh()).texts).toEqual(["13 kg"]);
    expect(await server.process.stop()).toMatchObject({ code: 0 });
    expect(server.process.output()).toContain("0 not recorded, 0 never requested");
  });

  it("[SC-070] is the recorded server on standard streams too", async () => {
    using folder = temporaryFolder();
    const file = folder.capture("a.ndjson", captureOf(recordedIn("2025-11-25")));
    const command = [process.execPath, bin, "replay", file, "--stdio"] as const;
    await using client = await connectV1({ via: "stdio", command });
    expect((await client.callTool("weigh", { args: { crate: 1 } })).texts).toEqual(["12 kg"]);
  });

  it("asks the client what the server asked then, and goes on with its answer", async () => {
    using folder = temporaryFolder();
    const question = {
      method: "elicitation/create",
      params: { message: "Which berth?", requestedSchema: { type: "object", properties: {} } },
      reply: { action: "accept", content: {} },
    };
    const calls = recordedIn("2025-11-25").map((call) =>
      call.method === "tools/call" ? { ...call, before: [question] } : call,
    );
    await using server = await serve(folder.capture("a.ndjson", captureOf(calls)));
    await using client = await connectV1({ via: "http", url: server.url });
    expect((await client.callTool("weigh", { args: { crate: 1 } })).texts).toEqual(["12 kg"]);
    expect(client.asked).toEqual(["elicitation/create"]);
  });

  it("[SC-070] answers what was not recorded with the nearest recordings, and fails in the end", async () => {
    using folder = temporaryFolder();
    await using server = await serve(folder.capture("a.ndjson", captureOf(recordedIn("2025-11-25"))));
    const { json } = await post(server.url, {
      jsonrpc: "2.0",
      id: 5,
      method: "tools/call",
      params: { name: "weigh", arguments: { crate: 2 } },
    });
    expect(json).toMatchObject({
      id: 5,
      error: {
        code: 4040,
        data: { nearest: [{ target: "weigh", differences: ["/arguments/crate: 1 changed to 2"] }] },
      },
    });
    expect(await server.process.stop()).toMatchObject({ code: 1 });
    expect(server.process.output()).toContain("/arguments/crate: 1 changed to 2");
  });

  it("serves this machine only, and no page of another site", async () => {
    using folder = temporaryFolder();
    await using server = await serve(folder.capture("a.ndjson", captureOf([])));
    expect(new URL(server.url).hostname).toBe("127.0.0.1");
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    expect((await post(server.url, ping, { origin: "https://evil.example" })).status).toBe(403);
    expect((await post(server.url, ping)).json).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
  });

  it("sends recorded calls to a server and shows what it answers otherwise", async () => {
    using folder = temporaryFolder();
    const before = recordedIn("2025-11-25");
    const now = before.map((call) =>
      call.method === "tools/list"
        ? {
            ...call,
            result: {
              tools: [{ name: "weigh", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }],
            },
          }
        : call,
    );
    await using server = await serve(folder.capture("now.ndjson", captureOf(now)));
    const file = folder.capture("before.ndjson", captureOf(before));
    const { exitCode, output } = await headgate("replay", file, "--against", server.url);
    expect(output).toContain('/result/tools/0/annotations: added {"readOnlyHint":true}');
    expect(output).toContain("2 of 3 responses");
    expect(exitCode).toBe(1);
    const same = await headgate("replay", file, "--against", server.url, "--ignore", "/result/tools/*/annotations");
    // The mock has given its second answer before, and gives it again.
    expect(same.output).toContain("/result/content/0/text");
  });

  it("does not call tools that may change something, nor sends what was redacted, unless told to", async () => {
    using folder = temporaryFolder();
    const calls = recordedIn("2025-11-25");
    await using server = await serve(folder.capture("a.ndjson", captureOf(calls)));
    const secret = {
      method: "tools/call",
      params: { name: "login", arguments: { key: "[redacted:0123456789ab]" } },
    };
    const file = folder.capture("b.ndjson", captureOf([...calls, secret]));
    const careful = await headgate("replay", file, "--against", server.url);
    expect(careful).toMatchObject({ exitCode: 0 });
    expect(careful.output).toContain("skipped 2: the tool may change something");
    expect(careful.output).toContain("skipped 1: it contains redacted values");
    expect((await headgate("replay", file, "--against", server.url, "--allow-writes")).output).toContain("3 of 3");
  });
});

describe("headgate diff", () => {
  it("says in what two recordings differ, and nothing where they do not", async () => {
    using folder = temporaryFolder();
    const calls = recordedIn("2025-11-25");
    const a = folder.capture("a.ndjson", captureOf(calls));
    const b = folder.capture("b.ndjson", captureOf(calls, "another"));
    expect(await headgate("diff", a, b)).toEqual({
      exitCode: 0,
      output: "4 calls are the same, 0 differences",
    });
    const changed = calls.map((call, index) => (index === 3 ? { ...call, result: { content: [] } } : call));
    const c = folder.capture("c.ndjson", captureOf(changed));
    const { exitCode, output } = await headgate("diff", a, c);
    expect(output).toContain("different response: tools/call weigh\n  /result/content/0: removed");
    expect(exitCode).toBe(1);
    expect((await headgate("diff", a, folder.at("none.ndjson"))).exitCode).toBe(2);
  });
});
