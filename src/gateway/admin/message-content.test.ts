import { describe, expect, it } from "vitest";

import type { Frame } from "../../recorder/contract.ts";
import { withoutContent } from "./message-content.ts";

describe("an operation for callers who may not read messages", () => {
  it("has no body and no header that repeats an argument", () => {
    const frame: Frame = {
      capture: "c",
      seq: 1,
      at: 1,
      mono: 1,
      kind: "request",
      leg: "client",
      passing: "received",
      direction: "c2s",
      exchange: "e",
      operation: "e",
      bytes: 99,
      method: "tools/call",
      target: "query",
      body: '{"params":{"arguments":{"region":"HIDDEN"}}}',
      context: {
        route: "r",
        principal: "p",
        revision: "2026-07-28",
        transport: "http",
        http: {
          method: "POST",
          path: "/mcp",
          headers: { "mcp-name": "query", "mcp-param-region": "HIDDEN", "user-agent": "x" },
        },
      },
    };
    const facts = { capture: "c", id: "e", method: "tools/call", route: "r", principal: "p", at: 1 } as const;
    const operation = { ...facts, state: "ok", rounds: 1, exchanges: [] } as const;
    const { frames } = withoutContent({ operation, frames: { e: [frame] } });
    expect(JSON.stringify(frames)).not.toContain("HIDDEN");
    expect(frames["e"]?.[0]?.context?.http?.headers).toEqual({ "mcp-name": "query", "user-agent": "x" });
  });
});
