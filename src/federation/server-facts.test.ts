import { describe, expect, it } from "vitest";

import type { FederationOptions } from "./names/member-options.ts";
import { formatDiscoverResult, formatInitializeResult } from "./server-facts.ts";

const options = { route: "desk", members: [], instructions: "" } as unknown as FederationOptions;

describe("the server info of a federation", () => {
  it.each([
    ["what the configuration says", { name: "harbour", title: "Harbour", version: "2.1" }],
    ["the name of the route otherwise", undefined],
  ])("is %s, in both eras", (_what, serverInfo) => {
    const expected = serverInfo ?? { name: "desk", version: "1" };
    const own = { ...options, serverInfo };
    expect(JSON.parse(formatInitializeResult(own, "2025-11-25", new Map()))).toMatchObject({ serverInfo: expected });
    expect(JSON.parse(formatDiscoverResult(own, new Map()))).toMatchObject({
      _meta: { "io.modelcontextprotocol/serverInfo": expected },
    });
  });
});
