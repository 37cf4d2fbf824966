import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import {
  startMockAuthZen,
  type MockAuthZenOptions,
  type MockAuthZenPolicy,
} from "../../src/policy/testing/mock-authzen.ts";
import { exchange } from "../support/raw-http.ts";
import { openGateway } from "../support/local-gateway.ts";
import { createServerAuthority } from "../support/server-authority.ts";
import { connectV2 } from "../support/v2-client.ts";

const server = resolve(import.meta.dirname, "../../examples/authzen/server.ts");
const authority = createServerAuthority();
const folder = mkdtempSync(join(tmpdir(), "headgate-authzen-"));
afterAll(() => {
  authority[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

interface Started {
  readonly mock?: MockAuthZenOptions;
  readonly authzen?: object;
  readonly policy?: object;
}

async function start({ mock: options = {}, authzen = {}, policy = {} }: Started = {}) {
  const mock = await startMockAuthZen({ token: "t0ken", ...options });
  const gateway = await openGateway({
    upstream: { command: process.execPath, args: [server] },
    policy: {
      authzen: { url: mock.url, token: "t0ken", retries: 0, circuitBreaker: false, ...authzen },
      ...policy,
    },
  });
  return {
    mock,
    gateway,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await mock.close();
    },
  };
}

const exceptClosing: MockAuthZenPolicy = ({ resource }) => resource.id !== "close_account";
const owner = { owner: "Eve" };
const texts = (text: string) => [{ type: "text", text }];

describe.each(["2025-11-25", "2026-07-28"] as const)(
  "a gateway that asks an AuthZEN decision point, clients of %s",
  (revision) => {
    const connect = (gateway: { readonly url: string }) => connectV2({ via: "http", url: gateway.url }, revision);

    it("lists what may be used by one batch for the page, and knows nothing of the rest", async () => {
      await using started = await start({ mock: { policy: exceptClosing } });
      await using client = await connect(started.gateway);
      expect(await client.listTools()).toEqual(["read_account", "transfer"]);
      const { requests } = started.mock;
      expect(requests.filter(({ endpoint }) => endpoint === "evaluations")).toHaveLength(1);
      expect(requests[0]?.endpoint).toBe("metadata");
      const read = await client.sdk.callTool({ name: "read_account", arguments: owner });
      expect(read.content).toEqual(texts("Eve has 1200"));
      await expect(client.sdk.callTool({ name: "close_account", arguments: owner })).rejects.toThrow(
        /unknown tool|not found/iu,
      );
    });

    it("asks what the server declares for its tool, and tells the decision point's reason", async () => {
      const policy: MockAuthZenPolicy = ({ resource }) =>
        resource.type !== "account" || resource.properties?.["size"] === "small"
          ? true
          : { decision: false, context: { why: "More than 100 is moved at the counter." } };
      await using started = await start({
        mock: { policy },
        authzen: { reason: "/why" },
        policy: { refusals: "coaz" },
      });
      await using client = await connect(started.gateway);
      const move = (amount: number) =>
        client.sdk.callTool({ name: "transfer", arguments: { from: "Eve", to: "Ann", amount } });
      await expect(move(5)).rejects.toMatchObject({
        code: -32_602,
        message: expect.stringContaining("tools/list first"),
      });
      await client.listTools();
      expect((await move(5)).content).toEqual(texts("moved 5 from Eve to Ann"));
      expect(started.mock.requests.at(-1)?.body).toMatchObject({
        action: { name: "transfer" },
        resource: { type: "account", id: "Eve", properties: { size: "small" } },
      });
      await expect(move(500)).rejects.toMatchObject({
        code: -32_001,
        message: expect.stringContaining("at the counter"),
      });
    });

    it("does what understood obligations say, and refuses others", async () => {
      const redact = { vendor: "headgate", action: "redact_result", paths: ["/content/0/text"] };
      let obligation: object = { id: "1", type: "custom", properties: redact };
      const policy: MockAuthZenPolicy = ({ action }) =>
        action.name === "tools/call" ? { decision: true, context: { obligations: [obligation] } } : true;
      await using started = await start({ mock: { policy }, policy: { refusals: "coaz" } });
      await using client = await connect(started.gateway);
      expect(await client.listTools()).toHaveLength(3);
      const read = () => client.sdk.callTool({ name: "read_account", arguments: owner });
      expect((await read()).content).toEqual(texts("[redacted]"));
      obligation = { id: "2", type: "notification", properties: { to: "boss", body: "!" } };
      await expect(read()).rejects.toMatchObject({ code: -32_001 });
    });

    it.each([false, true])("does without a decision point only when told so: fail-open %s", async (failOpen) => {
      await using started = await start({ policy: { failOpen, refusals: "coaz" } });
      await using client = await connect(started.gateway);
      await client.listTools();
      await started.mock.close();
      const read = client.sdk.callTool({ name: "read_account", arguments: owner });
      if (failOpen) expect((await read).content).toEqual(texts("Eve has 1200"));
      else await expect(read).rejects.toMatchObject({ code: -32_603 });
      const seen = client.listTools();
      if (failOpen) expect(await seen).toHaveLength(3);
      else await expect(seen).rejects.toThrow(/Authorization is unavailable/u);
    });

    it("stays shut for a decision point that does not know us, fail-open or not", async () => {
      await using started = await start({ policy: { failOpen: true } });
      await using client = await connect(started.gateway);
      await client.listTools();
      started.mock.fail({ status: 401, text: '"who are you?"' });
      await expect(client.sdk.callTool({ name: "read_account", arguments: owner })).rejects.toThrow(
        /Authorization is unavailable/u,
      );
      await expect(client.listTools()).rejects.toThrow(/Authorization is unavailable/u);
    });
  },
);

describe("a gateway that asks an AuthZEN decision point", () => {
  it("waits no longer than configured, tries again, keeps decisions, and counts all of it by route", async () => {
    await using started = await start({
      mock: { headers: { "cache-control": "max-age=600" } },
      authzen: { retries: 1, retryBackoff: 1, circuitBreaker: true, connectionTimeout: 60_000 },
      policy: { timeout: 3000 },
    });
    const { mock, gateway } = started;
    await using client = await connectV2({ via: "http", url: gateway.url }, "2025-11-25");
    await client.listTools();
    const read = (name: string) => client.sdk.callTool({ name, arguments: owner });
    await read("read_account");
    const before = mock.requests.length;
    await read("read_account");
    expect(mock.requests).toHaveLength(before);
    const figure = (name: string): string | undefined =>
      gateway.gateway
        .metrics()
        .split("\n")
        .find((line) => line.startsWith(`headgate_policy_${name}{`));
    expect(gateway.gateway.metrics()).toMatch(/headgate_policy_cache_total\{route="default",outcome="hit"\} [1-9]/u);
    mock.fail({ fault: "hang" });
    await expect(read("close_account")).rejects.toThrow(/timed out/u);
    expect(figure("timeouts_total")).toBe('headgate_policy_timeouts_total{route="default"} 1');
    expect(figure("breaker_open")).toBe('headgate_policy_breaker_open{route="default"} 1');
  });

  it("counts further attempts, and opens its breaker when they fail too", async () => {
    await using started = await start({ authzen: { retries: 2, retryBackoff: 1, circuitBreaker: true } });
    const { mock, gateway } = started;
    await using client = await connectV2({ via: "http", url: gateway.url }, "2025-11-25");
    await client.listTools();
    mock.fail({ status: 503 });
    const before = mock.requests.length;
    for (let i = 0; i < 2; i++)
      await expect(client.sdk.callTool({ name: "read_account", arguments: owner })).rejects.toThrow(
        /Authorization is unavailable/u,
      );
    expect(mock.requests).toHaveLength(before + 3);
    expect(gateway.gateway.metrics()).toContain('headgate_policy_retries_total{route="default"} 2\n');
    expect(gateway.gateway.metrics()).toContain('headgate_policy_breaker_open{route="default"} 1\n');
  });

  it("decides and records in shadow mode, and lets everything pass", async () => {
    await using started = await start({ mock: { policy: () => false }, policy: { shadow: true } });
    await using client = await connectV2({ via: "http", url: started.gateway.url }, "2025-11-25");
    expect(await client.listTools()).toHaveLength(3);
    const read = await client.sdk.callTool({ name: "read_account", arguments: owner });
    expect(read.content).toEqual(texts("Eve has 1200"));
    await expect
      .poll(() => started.gateway.gateway.metrics())
      .toMatch(/headgate_policy_decisions_total\{[^}]*effect="deny",mode="shadow"\} [1-9]/u);
  });

  it("speaks TLS with its own authorities, shows its certificate, and trusts nobody else", async () => {
    const pem = (name: string, text: string): string => {
      const file = join(folder, name);
      writeFileSync(file, text);
      return file;
    };
    const own = authority.issue("headgate");
    const tls = { ...authority.issue("pdp"), ca: authority.ca, requestCert: true };
    const caFile = pem("ca.pem", authority.ca);
    const files = { caFile, certFile: pem("own.pem", own.cert), keyFile: pem("own.key", own.key) };
    for (const [trusted, effect] of [
      [files, "passes"],
      [{ caFile }, "fails"],
      [undefined, "fails"],
    ] as const) {
      await using started = await start({
        mock: { tls },
        authzen: trusted === undefined ? {} : { tls: trusted },
      });
      const body = JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "initialize",
        params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
      });
      const answer = await exchange(started.gateway.url, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
        body,
      });
      expect([effect, answer.text.includes("serverInfo")]).toEqual([effect, effect === "passes"]);
      expect(started.mock.requests.length > 0).toBe(effect === "passes");
    }
  });
});
