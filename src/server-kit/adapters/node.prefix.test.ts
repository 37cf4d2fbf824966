import { describe, expect, it } from "vitest";

import { withoutPrefix } from "./node.ts";

describe("a path without its prefix", () => {
  it.each([
    ["/mcp/sse", "", "/mcp/sse"],
    ["/tools/mcp/sse?a=b", "/tools", "/mcp/sse?a=b"],
    ["/tools/mcp", "/tools/", "/mcp"],
    ["/tools", "/tools", "/"],
    ["/tools?x", "/tools", "?x"],
    ["/toolshed/mcp", "/tools", undefined],
    ["/mcp", "/tools", undefined],
  ])("[KO-052] %s without %j is %s", (path, prefix, expected) => {
    expect(withoutPrefix(path, prefix)).toBe(expected);
  });
});
