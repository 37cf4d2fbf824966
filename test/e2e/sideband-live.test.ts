import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import { drive } from "../support/engine-drive.ts";
import {
  requestFacts,
  responseFacts,
  startMockedEngine,
  startMockPingAuthorize,
} from "../support/mock-pingauthorize.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(root, "test/live/pingauthorize/run.ts");
const example = (name: string): unknown =>
  JSON.parse(readFileSync(join(root, `test/live/pingauthorize/payloads/${name}.json`), "utf8"));

const run = (env: Readonly<Record<string, string>>) => runTool(["node", suite], { cwd: root, env });

describe("the suite for a live PingAuthorize", () => {
  it("[PA-196] runs only where it is told the address and the secret", async () => {
    const { exitCode, output } = await run({});
    expect(exitCode).toBe(2);
    expect(output).toContain("Set PAZ_LIVE_URL and PAZ_LIVE_SECRET");
  });

  it("[PA-196] finds a server that behaves", async () => {
    await using mock = await startMockPingAuthorize({ secret: { header: "CLIENT-TOKEN", value: "s" } });
    const { exitCode, output } = await run({ PAZ_LIVE_URL: mock.url, PAZ_LIVE_SECRET: "s" });
    expect([exitCode, output.match(/^ok /gmu)?.length]).toEqual([0, 5]);
    const [plain, , mcp] = mock.requests.map(({ payload }) => payload);
    expect(plain).toEqual(example("request"));
    expect(mcp).toEqual(example("request-mcp"));
  });

  it("[PA-196] tells of a server that does not", async () => {
    await using mock = await startMockPingAuthorize({
      onRequest: ({ payload }) =>
        "mcp" in payload ? { status: 400, json: { message: "unknown field" } } : { json: {} },
    });
    const { exitCode, output } = await run({ PAZ_LIVE_URL: mock.url, PAZ_LIVE_SECRET: "s" });
    expect(exitCode).toBe(1);
    expect(output).toContain("FAIL a request with MCP fields");
    expect(output).toContain("FAIL a wrong secret is refused");
  });
});

describe("the example payloads", () => {
  const facts = requestFacts({
    method: "GET",
    path: "/accounts",
    query: "owner=ada",
    headers: { host: "api.example.com", accept: "application/json" },
  });
  const upstream = () =>
    responseFacts({
      headers: { "content-type": "application/json" },
      body: Buffer.from('{"owner":"ada","pin":"4711"}'),
    });

  it("[PA-196] are what is sent, and what the engine understands", async () => {
    await using mocked = await startMockedEngine(
      {},
      {
        mock: {
          onRequest: () => ({ json: example("answer-allow") }),
          onResponse: () => ({ json: example("answer-response") }),
        },
      },
    );
    const driven = await drive(mocked.engine, facts, upstream);
    expect(mocked.mock.requests.map(({ payload }) => payload)).toEqual([example("request"), example("response")]);
    expect(driven.upstream?.headers["x-checked-by"]).toEqual(["policy"]);
    expect(driven.text).toBe('{"owner":"ada"}');
    mocked.mock.onRequest(() => ({ json: example("answer-deny") }));
    expect(await drive(mocked.engine, facts, upstream)).toMatchObject({ status: 403, upstream: undefined });
    expect(mocked.logs.filter(({ level }) => level === "warn" || level === "error")).toEqual([]);
  });
});
