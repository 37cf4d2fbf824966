import * as z from "zod";
import { describe, expect, it } from "vitest";

import { endpoints } from "../../src/gateway/admin/endpoints/endpoints.ts";
import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import { openAdmin } from "../support/admin.ts";
import { eventually } from "../support/eventually.ts";

const policy = {
  rules: [
    { id: "no-failures", deny: 'mcp.tool == "fail"', reason: "Nothing fails here." },
    { id: "small-sums", allow: 'mcp.tool == "add" && mcp.arguments.a < 100.0' },
    { id: "rest", allow: "true" },
  ],
};

async function withTraffic() {
  const admin = await openAdmin({ policy });
  await using client = await admin.connect();
  await client.sdk.listTools();
  await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
  await client.sdk.callTool({ name: "fail", arguments: {} }).catch(() => {});
  const exchanges = await eventually(async () => {
    const { json } = await admin.ask("/exchanges?filter=method:tools/call");
    const list = (json as { exchanges: readonly ExchangeRecord[] }).exchanges;
    expect(list.map(({ target, state }) => [target, state])).toEqual([
      ["fail", "refused"],
      ["add", "ok"],
    ]);
    return list;
  });
  const [refused, added] = exchanges;
  return Object.assign(admin, { added: added?.id ?? "", refused: refused?.id ?? "" });
}

/** An answer, checked by the schema that the OpenAPI document shows. */
function checked(path: string, answer: { readonly json: unknown }): unknown {
  const endpoint = endpoints.find((one) => one.method === "GET" && one.path === path);
  if (endpoint?.answers.type !== "json") throw new Error(`no endpoint ${path}`);
  const parsed = endpoint.answers.schema.safeParse(answer.json);
  if (!parsed.success) throw new Error(z.prettifyError(parsed.error));
  return parsed.data;
}

describe("the admin API over recorded traffic", () => {
  it("gives pages of exchanges, one with its frames, sessions and figures, as documented", async () => {
    await using admin = await withTraffic();
    const first = checked("/exchanges", await admin.ask("/exchanges?limit=2")) as { next?: string };
    const second = checked("/exchanges", await admin.ask(`/exchanges?limit=2&cursor=${first.next ?? ""}`));
    expect(second).toMatchObject({ exchanges: [{}, {}] });
    expect(second).not.toEqual(first);
    const one = checked("/exchanges/{id}", await admin.ask(`/exchanges/${encodeURIComponent(admin.added)}`));
    expect(JSON.stringify(one)).toContain("2 + 40 = 42");
    expect(checked("/sessions", await admin.ask("/sessions"))).toMatchObject({
      sessions: [{ principal: "anonymous", refused: 1, targets: expect.arrayContaining(["add"]) as string[] }],
    });
    expect(checked("/figures", await admin.ask("/figures?minutes=5"))).toMatchObject({
      complete: true,
      refused: 1,
      refusals: [{ rule: "no-failures", count: 1 }],
    });
    expect(checked("/topology", await admin.ask("/topology?minutes=5"))).toMatchObject({
      complete: true,
      routes: [{ name: "default", health: expect.any(String) as string }],
      edges: [{ principal: "anonymous", route: "default", refused: 1, p95Ms: expect.any(Number) as number }],
    });
  });

  it("says of a call why it was allowed or refused, rule by rule", async () => {
    await using admin = await withTraffic();
    const why = async (id: string) =>
      checked("/exchanges/{id}/why", await admin.ask(`/exchanges/${encodeURIComponent(id)}/why`));
    expect(await why(admin.added)).toMatchObject({
      policy: "rules",
      phases: [
        {
          phase: "request",
          effect: "allow",
          rule: "small-sums",
          rules: [
            { id: "no-failures", action: "deny", outcome: "false" },
            {
              id: "small-sums",
              action: "allow",
              outcome: "true",
              condition: expect.stringContaining("< 100.0") as string,
            },
          ],
          read: expect.arrayContaining([{ path: "mcp.arguments.a", value: "2" }]) as unknown[],
        },
        { phase: "response", effect: "allow" },
      ],
    });
    expect(await why(admin.refused)).toMatchObject({
      phases: [{ effect: "deny", rule: "no-failures", reason: "Nothing fails here." }],
    });
  });

  it("streams exchanges as they happen, those that match", async () => {
    await using admin = await openAdmin();
    await using client = await admin.connect();
    await using live = await admin.stream("/live?filter=tool:add");
    expect(await live.next()).toMatchObject({ event: "ready" });
    await client.sdk.callTool({ name: "count_slowly", arguments: { to: 1, delay_ms: 1 } }).catch(() => {});
    await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
    const event = await live.next();
    expect(event?.event).toBe("exchanges");
    expect(JSON.parse(event?.data ?? "")).toMatchObject({ exchanges: [{ target: "add" }] });
  });

  it("refuses input of the wrong type and pages that are too large, and does not find what is not there", async () => {
    await using admin = await openAdmin();
    const cases: readonly (readonly [string, number])[] = [
      ["/exchanges?limit=1001", 400],
      ["/exchanges?limit=0", 400],
      ["/exchanges?limit=many", 400],
      ["/exchanges?limit=1&limit=2", 400],
      ["/exchanges?order=sideways", 400],
      ["/exchanges?cursor=nonsense", 400],
      [`/exchanges?filter=${"x".repeat(2001)}`, 400],
      ["/exchanges?filter=foo:bar", 400],
      ["/exchanges?filter=((", 400],
      ["/exchanges/%E0%A4%A", 400],
      ["/exchanges/nobody", 404],
      ["/exchanges/nobody/why", 404],
      ["/exchanges/..%2F..%2Fetc%2Fpasswd", 404],
      ["/sessions?minutes=-1", 400],
      ["/figures?minutes=1e9", 400],
      ["/live?filter=foo:bar", 400],
    ];
    for (const [path, status] of cases) {
      const answer = await admin.ask(path);
      expect({ path, status: answer.status }).toEqual({ path, status });
      expect(answer.json).toMatchObject({
        error: { code: expect.any(String) as string, message: expect.any(String) as string },
      });
    }
  });

  it("has nothing to show before the first message", async () => {
    await using admin = await openAdmin();
    expect(await admin.ask("/exchanges")).toMatchObject({ status: 200, json: { exchanges: [] } });
    expect(await admin.ask("/figures")).toMatchObject({ status: 200, json: { requests: 0 } });
    await using live = await admin.stream("/live");
    expect(await live.next()).toMatchObject({ event: "ready" });
  });

  it("says that nothing is recorded where that is so", async () => {
    await using admin = await openAdmin({ record: false });
    for (const path of ["/exchanges", "/sessions", "/figures"])
      expect(await admin.ask(path)).toMatchObject({ status: 404, json: { error: { code: "not_found" } } });
  });
});
