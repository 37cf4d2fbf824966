import { join } from "node:path";

import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport as SseV1 } from "@modelcontextprotocol/sdk/client/sse.js";
import {
  Client as ClientV2,
  SSEClientTransport as SseV2,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { toolCall } from "../support/kit-client.ts";
import { openKitStream } from "../support/kit-stream.ts";
import { startProcess, type RunningProcess } from "../support/process.ts";
import { serveTestKit } from "../support/served-kit.ts";

const identity = { name: "test", version: "1.0.0" };
const withToken = (token: string) => ({ requestInit: { headers: { authorization: `Bearer ${token}` } } });
const sitesOf = (result: unknown): readonly string[] =>
  (result as { structuredContent: { items: { name: string }[] } }).structuredContent.items.map(({ name }) => name);

describe("the official SSE clients", () => {
  it("[KO-056] [KO-064] of SDK v1 work unmodified on the document's stream", async () => {
    await using kit = await serveTestKit({ settings: { requireAuthentication: true } });
    const client = new ClientV1(identity);
    await client.connect(new SseV1(new URL(`${kit.url}/sse`), withToken(await kit.token())));
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain("TrialSite_List");
    expect(sitesOf(await client.callTool({ name: "TrialSite_List", arguments: {} }))).toContain("Oslo");
    const progress: number[] = [];
    const call = client.callTool({ name: "Probe_Progress", arguments: {} }, undefined, {
      onprogress: (made) => progress.push(made.progress),
    });
    await expect.poll(() => progress).toEqual([1]);
    kit.release();
    expect(await call).toMatchObject({ content: [{ text: "done" }] });
    await client.close();
    await expect.poll(async () => (await kit.kit.health()).activeConnections).toBe(0);
  });

  it("[KO-056] of SDK v2 work unmodified, and a call they cancel stops", async () => {
    await using kit = await serveTestKit({ settings: { requireAuthentication: true } });
    const client = new ClientV2(identity, { versionNegotiation: { mode: "legacy" } });
    await client.connect(new SseV2(new URL(`${kit.url}/sse`), withToken(await kit.token())));
    expect(sitesOf(await client.callTool({ name: "TrialSite_List", arguments: {} }))).toContain("Bergen");
    const stop = new AbortController();
    const call = client.callTool({ name: "Probe_Wait", arguments: {} }, { signal: stop.signal });
    await expect.poll(() => kit.waits.waiting).toBe(1);
    stop.abort();
    await expect(call).rejects.toThrow(/abort|cancel/iu);
    await expect.poll(() => kit.waits.aborted).toBe(1);
    await client.close();
  });

  it("[KO-095] are turned away without a token", async () => {
    await using kit = await serveTestKit({
      settings: { requireAuthentication: true, entityOverrides: {} },
    });
    // The probes are for everybody, so the door is open; a token that is no good is refused all the same.
    const client = new ClientV1(identity);
    await expect(client.connect(new SseV1(new URL(`${kit.url}/sse`), withToken("forged")))).rejects.toThrow(/401/u);
  });

  it("[KO-064] share a stream's server with the document's clients, without duplicates", async () => {
    await using kit = await serveTestKit();
    const standard = new ClientV2(identity, { versionNegotiation: { mode: "legacy" } });
    await standard.connect(new SseV2(new URL(`${kit.url}/sse`)));
    await using raw = await openKitStream(kit.url);
    await raw.post(toolCall(1, "TrialSite_List"));
    const [, ours] = await Promise.all([
      standard.callTool({ name: "TrialSite_List", arguments: {} }),
      raw.until("result"),
    ]);
    expect(JSON.parse(ours.data)).toMatchObject({ id: 1 });
    await raw.post(toolCall(2, "Probe_Big", { bytes: 1 }));
    // The very next events are those of the next call: nothing came twice.
    expect((await raw.stream.next())?.event).toBe("ack");
    expect((await raw.stream.next())?.event).toBe("result");
    await standard.close();
  });
});

describe("refusals of tools", () => {
  it("[KO-098] are JSON-RPC errors on the document's profile, with reason, scopes and an application code", async () => {
    await using kit = await serveTestKit({ settings: { requireAuthentication: true } });
    await using client = await openKitStream(kit.url, {
      authorization: `Bearer ${await kit.token("other")}`,
    });
    await client.post(toolCall(1, "TrialSite_List"));
    const { error } = JSON.parse((await client.until("error")).data) as {
      error: { code: number; data: Record<string, unknown> };
    };
    expect(error.data).toMatchObject({
      reason: "insufficient_scope",
      requiredScopes: ["clinical:operations"],
    });
    expect(error.code < -32_768 || error.code > -32_000).toBe(true);
    await client.post(toolCall(2, "TrialSite_List"), { authorization: `Bearer ${await kit.token()}` });
    expect((await client.until("result")).data).toContain("Oslo");
  });

  it("[KO-095] [KO-096] [KO-097] hold for anonymous callers too, who pass the door for what is public", async () => {
    await using kit = await serveTestKit({ settings: { requireAuthentication: true } });
    await using client = await openKitStream(kit.url);
    await client.post(toolCall(1, "TrialSite_List"));
    expect(JSON.parse((await client.until("error")).data)).toMatchObject({
      id: 1,
      error: { data: { reason: "unauthorized" } },
    });
    await client.post(toolCall(2, "Probe_Big", { bytes: 3 }));
    expect((await client.until("result")).data).toContain("xxx");
  });
});

describe("a gateway in front of the sample server", () => {
  async function startSample(): Promise<RunningProcess & { readonly url: string }> {
    const main = join(import.meta.dirname, "../../examples/medtrials/main.ts");
    const running = await startProcess([process.execPath, main, "--port", "0"], {
      env: { NODE_ENV: "development" },
    });
    const [, origin = ""] = await running.waitForLine(/Address: (http\S+)/u);
    return { ...running, url: `${origin}/mcp` };
  }

  it("serves Streamable HTTP clients of both eras: headgate run --upstream", async () => {
    await using sample = await startSample();
    await using gateway = await startGateway(["run", "--upstream", sample.url, "--port", "0"]);
    for (const mode of ["legacy", "auto"] as const) {
      const client = new ClientV2(identity, { versionNegotiation: { mode } });
      await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)));
      expect(sitesOf(await client.callTool({ name: "TrialSite_List", arguments: {} }))).toContain("Fjord Clinic");
      await client.close();
    }
  });

  it("serves standard SSE clients from the document's stream", async () => {
    await using sample = await startSample();
    const upstream = ["--upstream", `${sample.url}/sse`, "--transport", "sse"];
    await using gateway = await startGateway(["run", ...upstream, "--port", "0"]);
    const client = new ClientV2(identity, { versionNegotiation: { mode: "legacy" } });
    await client.connect(new SseV2(new URL(`${gateway.origin}/sse`)));
    expect(sitesOf(await client.callTool({ name: "TrialSite_List", arguments: {} }))).toContain("Fjord Clinic");
    await client.close();
  });
});
