import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { createDemoServer } from "../../src/demo/server.ts";
import { localConfig, openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { connectV2 } from "../support/v2-client.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-audit-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function configWith(audit: ConfigInput["audit"]): ConfigInput {
  return {
    upstream: { demo: true },
    policy: {
      rules: [
        { id: "no-stories", deny: 'mcp.tool == "tell_story"', reason: "No stories." },
        { id: "sums", allow: 'mcp.tool == "add"' },
      ],
    },
    audit,
  };
}

const open = async (audit: ConfigInput["audit"]): Promise<LocalGateway> =>
  openGateway(configWith(audit), { demo: createDemoServer });

interface Line {
  readonly decision: string;
  readonly session?: string;
  readonly method: string;
  readonly phase: string;
  readonly effect: string;
  readonly rule?: string;
}

function linesOf(file: string): readonly Line[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

/** The message of the error with which a call ends. */
async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "no refusal";
  } catch (error) {
    return error instanceof Error ? error.message : "no error";
  }
}

describe("the audit stream of a gateway", () => {
  it("has every decision by the time the gateway has ended", async () => {
    const file = join(folder, "audit.ndjson");
    await using gateway = await open({ file });
    {
      await using client = await connectV2({ via: "http", url: gateway.url }, "2025-11-25");
      await client.callTool("add", { args: { a: 2, b: 3 } });
      expect(await refusalOf(client.callTool("tell_story"))).toContain("No stories.");
    }
    await gateway.gateway.close();
    const calls = linesOf(file).filter(({ method }) => method === "tools/call");
    expect(calls.map(({ phase, effect, rule }) => `${phase} ${effect} ${rule ?? "-"}`)).toEqual([
      "request allow sums",
      "response allow -",
      "request deny no-stories",
    ]);
    expect(new Set(linesOf(file).map(({ decision }) => decision)).size).toBe(linesOf(file).length);
  });

  it("lets nothing pass while it cannot be written, where that is configured", async () => {
    const file = join(folder, "missing", "audit.ndjson");
    await using gateway = await open({ file, onFailure: "refuse" });
    const initialize = async (): Promise<string> => {
      const response = await fetch(gateway.url, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: 1,
          method: "initialize",
          params: {
            protocolVersion: "2025-11-25",
            capabilities: {},
            clientInfo: { name: "test", version: "1" },
          },
        }),
      });
      return response.text();
    };
    // From the first one on: the file is tried when the gateway starts.
    expect(await initialize()).toContain("Decisions cannot be audited at the moment");
    expect(gateway.gateway.metrics()).toMatch(/^headgate_audit_failures_total [1-9]/mu);
  });

  it("holds no whole session id and no secret in a name, and goes on in a new file when its file is deleted", async () => {
    const file = join(folder, "audit.ndjson");
    await using gateway = await open({ file, onFailure: "refuse" });
    const secret = `ghp_${"a1B2".repeat(9)}`;
    await using client = await connectV2({ via: "http", url: gateway.url }, "2025-11-25");
    await refusalOf(client.callTool(`add ${secret}`));
    await expect.poll(() => readFileSync(file, "utf8")).toContain("add [redacted");
    const text = readFileSync(file, "utf8");
    expect(text).not.toContain(secret);
    expect(linesOf(file).every(({ session }) => session === undefined || session.length === 8)).toBe(true);
    rmSync(file);
    await expect.poll(() => gateway.gateway.metrics()).toMatch(/^headgate_audit_failures_total 1/mu);
    const call = () => client.callTool("add", { args: { a: 2, b: 3 } });
    // Refused until the new file has been begun.
    await expect.poll(() => refusalOf(call())).toBe("no refusal");
    await client[Symbol.asyncDispose]();
    await gateway.gateway.close();
    expect(linesOf(file).some(({ rule }) => rule === "sums")).toBe(true);
  });

  it("goes on in another file after a reload", async () => {
    const [first, second] = [join(folder, "one.ndjson"), join(folder, "two.ndjson")];
    await using gateway = await open({ file: first });
    const { gateway: running } = gateway;
    {
      await using client = await connectV2({ via: "http", url: gateway.url }, "2025-11-25");
      await client.callTool("add", { args: { a: 2, b: 3 } });
      const outcome = await running.reload(localConfig(configWith({ file: second })));
      expect(outcome).toMatchObject({ ok: true, needsRestart: [] });
      await client.callTool("add", { args: { a: 2, b: 3 } });
    }
    await running.close();
    const calls = (file: string) => linesOf(file).filter(({ method }) => method === "tools/call");
    expect([calls(first).length, calls(second).length]).toEqual([2, 2]);
  });
});
