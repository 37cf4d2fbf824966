import { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import * as z from "zod";

import { headerName } from "../lib/text/header-name.ts";
import { createUpstreamConfig, type ServerFactory } from "./config.ts";

const upstream = createUpstreamConfig(z.undefined());

describe("the configuration of an upstream", () => {
  it("is told apart by its type", () => {
    const types = [{ url: "https://x" }, { command: "x" }, { demo: true } as const].map(
      (written) => upstream.parse(written).type,
    );
    expect(types).toEqual(["http", "stdio", "demo"]);
  });

  it("takes the official SDK's server as it is", () => {
    const server: ServerFactory = () => new McpServer({ name: "in-process", version: "1" });
    expect(upstream.parse({ server })).toEqual({ type: "in-process", server });
  });

  it("takes durations with a unit", () => {
    expect(upstream.parse({ url: "https://x", idleReuse: "7s" })).toMatchObject({ idleReuse: 7000 });
  });

  it.each(["Connection", "Transfer-Encoding", "Host", "Mcp-Session-Id", "MCP-Protocol-Version", "a:b", ""])(
    "refuses the header %j",
    (name) => {
      expect(headerName.safeParse(name).success).toBe(false);
    },
  );

  it.each([" x", "x ", "a\r\nb", "\0", "\u2603"])("refuses the header value %j", (value) => {
    expect(upstream.safeParse({ url: "https://x", headers: { "X-Key": value } }).success).toBe(false);
  });

  it.each(["", "x", "Bearer a.b-c_d==", "caf\u00E9", "a\tb"])("takes the header value %j", (value) => {
    expect(upstream.parse({ url: "https://x", headers: { "X-Key": value } })).toMatchObject({
      headers: { "x-key": value },
    });
  });
});
