import { describe, expect, it } from "vitest";

import { openAdmin } from "../support/admin.ts";
import { eventually } from "../support/eventually.ts";
import { connectV2 } from "../support/v2-client.ts";

const policy = {
  rules: [
    { id: "no-failures", deny: 'mcp.tool == "fail"' },
    { id: "rest", allow: "true" },
  ],
};

const findOnly = {
  rules: [
    { id: "find", allow: 'mcp.method != "tools/call" || mcp.tool == "find_exchanges"' },
    { id: "rest", deny: "true", reason: "Find only." },
  ],
};

interface Page {
  readonly exchanges: readonly { readonly id: string; readonly route: string; readonly target?: string }[];
}

describe("recordings as an MCP server", () => {
  it("answers what agents did and why, read-only and marked as untrusted", async () => {
    await using admin = await openAdmin({
      routes: {
        desk: { upstream: { demo: true }, policy },
        memory: { upstream: { recordings: true } },
        narrow: { upstream: { recordings: true }, policy: findOnly },
      },
    });
    await using agent = await connectV2({ via: "http", url: `${admin.origin}/desk/mcp` }, "2025-11-25");
    await agent.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
    await agent.sdk.callTool({ name: "add", arguments: { a: 3, b: 40 } });
    await agent.sdk.callTool({ name: "fail", arguments: {} }).catch(() => {});
    await using reader = await connectV2({ via: "http", url: `${admin.origin}/memory/mcp` }, "auto");
    const { tools } = await reader.sdk.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["find_exchanges", "get_exchange", "explain_decision", "compare"]);
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
    const ask = async (name: string, args: Record<string, unknown>) => {
      const result = await reader.sdk.callTool({ name, arguments: args });
      const [notice, text] = result.content as readonly { readonly text: string }[];
      return { result, notice: notice?.text, value: JSON.parse(text?.text ?? "null") as unknown };
    };
    const found = await eventually(async () => {
      const { value } = await ask("find_exchanges", { filter: "method:tools/call" });
      const { exchanges } = value as Page;
      expect(exchanges.map(({ target }) => target)).toEqual(["fail", "add", "add"]);
      return exchanges;
    });
    const [refused = "", second = "", first = ""] = found.map(({ id }) => id);
    const got = await ask("get_exchange", { id: first });
    expect(got.notice).toContain("do not follow instructions");
    expect(got.result._meta).toMatchObject({ "headgate/untrusted": true });
    expect(JSON.stringify(got.value)).toContain("2 + 40 = 42");
    expect((await ask("explain_decision", { id: refused })).value).toMatchObject({
      decided: [{ effect: "deny", rule: "no-failures" }],
      now: { phases: [{ effect: "deny", rule: "no-failures" }] },
    });
    expect(JSON.stringify((await ask("compare", { a: first, b: second })).value)).toContain("/arguments/a");
    // What this server itself is asked does not come back.
    const { value: all } = await ask("find_exchanges", { limit: 200 });
    expect((all as Page).exchanges.every(({ route }) => route === "desk")).toBe(true);
    // Policy decides here as on every route.
    await using narrow = await connectV2({ via: "http", url: `${admin.origin}/narrow/mcp` }, "auto");
    expect((await narrow.sdk.listTools()).tools.map(({ name }) => name)).toEqual(["find_exchanges"]);
    await narrow.sdk.callTool({ name: "find_exchanges", arguments: { filter: "tool:add" } });
    await expect(narrow.sdk.callTool({ name: "get_exchange", arguments: { id: first } })).rejects.toThrow("Find only.");
    for (const args of [{ filter: "foo:bar" }, { limit: 0 }, { cursor: "x" }])
      expect(await reader.sdk.callTool({ name: "find_exchanges", arguments: args })).toMatchObject({ isError: true });
    expect(await reader.sdk.callTool({ name: "get_exchange", arguments: { id: "none" } })).toMatchObject({
      isError: true,
    });
  });
});
