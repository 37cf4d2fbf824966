import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ConfigInput } from "../../config/schema.ts";
import { localConfig } from "../../../test/support/local-gateway.ts";
import { createDemoServer } from "../../demo/server.ts";
import { isSameUpstream, upstreamIdentityOf } from "./open-upstream.ts";

type RouteInput = NonNullable<ConfigInput["routes"]>[string];

function fragmentOf(route: RouteInput) {
  const [config] = Object.values(localConfig({ routes: { one: route } }).routes);
  if (config === undefined) throw new Error("there is no route");
  return upstreamIdentityOf(config);
}

const http = { url: "https://127.0.0.1:9/mcp" };
const stdio = { command: "server", args: ["--fast"] };

describe("an upstream", () => {
  it.each<[string, RouteInput, RouteInput]>([
    ["other call timeouts", { upstream: http }, { upstream: http, timeouts: { tool: "1m", tools: { slow: "2m" } } }],
    ["other rates", { upstream: http }, { upstream: http, rates: { session: { perSecond: 1 } } }],
    ["headers for a process", { upstream: stdio }, { upstream: stdio, forwardHeaders: ["x-team"] }],
    ["a way to connect for a process", { upstream: stdio }, { upstream: stdio, timeouts: { connect: "1s" } }],
  ])("is the same with %s", (_what, one, other) => {
    expect(isSameUpstream(fragmentOf(one), fragmentOf(other))).toBe(true);
  });

  it.each<[string, RouteInput, RouteInput]>([
    ["URL", { upstream: http }, { upstream: { url: "https://127.0.0.1:9/other" } }],
    ["header", { upstream: http }, { upstream: { ...http, headers: { "x-key": "new" } } }],
    ["list of headers that go on", { upstream: http }, { upstream: http, forwardHeaders: ["x-team"] }],
    ["time to connect", { upstream: http }, { upstream: http, timeouts: { connect: "1s" } }],
    [
      "time to connect to one of several",
      { upstreams: { a: http } },
      { upstreams: { a: http }, timeouts: { connect: "1s" } },
    ],
    ["mode", { upstream: http }, { upstream: http, mode: "observe" }],
    ["argument", { upstream: stdio }, { upstream: { ...stdio, args: ["--slow"] } }],
    ["environment", { upstream: stdio }, { upstream: { ...stdio, env: { KEY: "new" } } }],
    [
      "server function",
      { upstream: { server: () => createDemoServer() } },
      { upstream: { server: () => createDemoServer() } },
    ],
  ])("is another with another %s", (_what, one, other) => {
    expect(isSameUpstream(fragmentOf(one), fragmentOf(other))).toBe(false);
  });

  it("is another when its certificate was rotated in place", () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-pem-"));
    try {
      const caFile = join(folder, "ca.pem");
      const route: RouteInput = { upstream: { ...http, tls: { caFile } } };
      writeFileSync(caFile, "one");
      const before = fragmentOf(route);
      expect(isSameUpstream(before, fragmentOf(route))).toBe(true);
      writeFileSync(caFile, "two");
      expect(isSameUpstream(before, fragmentOf(route))).toBe(false);
      rmSync(caFile);
      expect(() => fragmentOf(route)).toThrow(`cannot read ${caFile}`);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
