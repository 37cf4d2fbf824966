import { execFile } from "node:child_process";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { promisify } from "node:util";

import { createParser } from "eventsource-parser";
import * as z from "zod";
import { describe, expect, it } from "vitest";

import { endpoints } from "../../src/gateway/admin/endpoints/endpoints.ts";
import { asCurl } from "../../console/src/views/exchange/copies.ts";
import type { ExchangeRecord, Frame } from "../../src/recorder/contract.ts";
import { openSqliteStore } from "../../src/recorder/store/sqlite.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { openAdmin } from "../support/admin.ts";
import { captureOf } from "../support/capture.ts";
import { eventually } from "../support/eventually.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

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

async function* manyCalls(count: number, id: string): AsyncGenerator<CaptureLine> {
  const at = Date.now();
  const call = { method: "tools/call", params: { name: "add" }, result: {} };
  yield* captureOf(
    Array.from({ length: count }, (_, index) => ({ ...call, at: at + index })),
    id,
  );
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
    const told = checked("/conversations", await admin.ask("/conversations?filter=tool:add"));
    expect(told).toMatchObject({
      turns: [
        {
          id: admin.added,
          summary: "Used the tool add",
          arguments: [{ name: "a", value: "2" }, {}],
          answer: "2 + 40 = 42",
        },
      ],
    });
    const before = checked("/conversations", await admin.ask("/conversations?limit=1")) as { next?: string };
    const after = checked("/conversations", await admin.ask(`/conversations?limit=1&cursor=${before.next ?? ""}`));
    expect(before).toMatchObject({ turns: [{ id: admin.refused, state: "refused" }] });
    expect(after).toMatchObject({ turns: [{ id: admin.added }] });
    expect(checked("/figures", await admin.ask("/figures?minutes=5"))).toMatchObject({
      complete: true,
      refused: 1,
      refusals: [{ by: "no-failures", filter: 'rule:"no-failures"', count: 1 }],
    });
    expect(checked("/topology", await admin.ask("/topology?minutes=5"))).toMatchObject({
      complete: true,
      routes: [{ name: "default", health: expect.any(String) as string }],
      edges: [{ principal: "anonymous", route: "default", refused: 1, p95Ms: expect.any(Number) as number }],
    });
  });

  it.each(["2025-11-25", "2026-07-28"] as const)(
    "counts what a client of %s asked for once, however many servers are asked for it",
    async (revision) => {
      const member = (name: string) => ({ server: () => createToolServer({ name, tools: ["look"] }) });
      await using admin = await openAdmin({
        routes: { desk: { upstreams: { one: member("one"), two: member("two") } } },
      });
      await using client = await connectV2({ via: "http", url: `${admin.origin}/desk/mcp` }, revision);
      await client.sdk.listTools();
      await client.sdk.callTool({ name: "two__look", arguments: {} });
      const asked = await eventually(async () => {
        const { exchanges } = (await admin.ask("/exchanges?filter=kind:request")).json as {
          exchanges: readonly ExchangeRecord[];
        };
        expect(exchanges[0]?.target).toBe("two__look");
        expect(exchanges.every(({ state }) => state === "ok")).toBe(true);
        return exchanges;
      });
      const own = asked.filter(({ parent }) => parent === undefined);
      const lists = asked.filter(({ method }) => method === "tools/list");
      const [list, ...otherLists] = lists.filter(({ parent }) => parent === undefined);
      expect(otherLists).toEqual([]);
      const ofList = lists.filter(({ parent }) => parent === list?.id);
      expect(new Set(ofList.map(({ upstream }) => upstream))).toEqual(new Set(["one", "two"]));
      expect(new Set(ofList.map(({ operation }) => operation))).toEqual(new Set([list?.operation]));
      const names = new Set(asked.map(({ client: name }) => name));
      expect(names.size).toBe(1);
      expect(checked("/figures", await admin.ask("/figures"))).toMatchObject({
        requests: own.length,
        targets: expect.arrayContaining([expect.objectContaining({ method: "tools/list", count: 1 })]) as unknown,
      });
      expect(checked("/sessions", await admin.ask("/sessions"))).toMatchObject({ sessions: [{ calls: own.length }] });
      const { turns } = checked("/conversations", await admin.ask("/conversations")) as { turns: readonly object[] };
      expect(turns.filter((turn) => "method" in turn && turn.method === "tools/list")).toMatchObject([
        { rounds: 1, answer: "2 tools", questions: [] },
      ]);
      const { edges } = checked("/topology", await admin.ask("/topology")) as { edges: readonly { count: number }[] };
      const byCaller = edges.filter((edge) => !("byGateway" in edge));
      expect(byCaller.reduce((sum, { count }) => sum + count, 0)).toBe(own.length);
      expect(edges.length).toBeGreaterThan(byCaller.length);
    },
  );

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

  it("records enough to make a call again with curl, in both eras", async () => {
    await using admin = await openAdmin();
    for (const revision of ["2025-11-25", "2026-07-28"] as const) {
      await using client = await connectV2({ via: "http", url: admin.url }, revision);
      await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
      const record = await eventually(async () => {
        const { json } = await admin.ask(`/exchanges?filter=revision:${revision} tool:add status:ok`);
        const [found] = (json as { readonly exchanges: readonly ExchangeRecord[] }).exchanges;
        if (found === undefined) throw new Error("not recorded yet");
        return found;
      });
      const { json } = await admin.ask(`/exchanges/${encodeURIComponent(record.id)}`);
      const { frames } = json as { readonly frames: Readonly<Record<string, readonly Frame[]>> };
      const first = frames[record.id]?.[0];
      const headers = first?.context?.http?.headers;
      const copy = asCurl({ record, request: first?.body ?? "", headers, answer: undefined, url: admin.url });
      const { stdout } = await promisify(execFile)("sh", ["-c", copy]);
      expect(stdout).toContain("2 + 40 = 42");
    }
  });

  it("streams exchanges as they happen, those that match", async () => {
    await using admin = await openAdmin();
    await using client = await admin.connect();
    await using live = await admin.stream("/live?filter=tool:add");
    expect(await live.next()).toMatchObject({ event: "ready" });
    // Others may follow the same, and go.
    await using second = await admin.stream("/live?filter=tool:add");
    expect(await second.next()).toMatchObject({ event: "ready" });
    await using gone = await admin.stream("/live?filter=tool:add");
    expect(await gone.next()).toMatchObject({ event: "ready" });
    await gone[Symbol.asyncDispose]();
    await client.sdk.callTool({ name: "count_slowly", arguments: { to: 1, delay_ms: 1 } }).catch(() => {});
    await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
    for (const stream of [live, second]) {
      const event = await stream.next();
      expect(event?.event).toBe("exchanges");
      expect(JSON.parse(event?.data ?? "")).toMatchObject({ exchanges: [{ target: "add" }] });
    }
  });

  it("queues nothing for a slow reader, and says how much it missed", async () => {
    await using admin = await openAdmin();
    await using store = await openSqliteStore({ file: admin.folder.at("traffic.sqlite") }, { wait: async () => {} });
    const { promise: response, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const headers = { authorization: `Bearer ${admin.token}` };
    request(`${admin.root}/live`, { headers }, resolve).on("error", reject).end();
    const live = await response;
    await once(live, "readable");
    // Nobody reads, until far more has happened than the sockets hold.
    const [perBatch, batches] = [2000, 12];
    await using counting = await admin.stream("/live");
    let seen = 0;
    const countOf = (event: { readonly event?: string | undefined; readonly data: string } | undefined): number => {
      const data = JSON.parse(event?.data ?? "{}") as { count?: number; exchanges?: readonly unknown[] };
      return data.count ?? data.exchanges?.length ?? 0;
    };
    for (let batch = 0; batch < batches; batch++) {
      await store.import(manyCalls(perBatch, `batch-${batch}`));
      while (seen < (batch + 1) * perBatch) seen += countOf(await counting.next());
    }
    let [told, omitted] = [0, 0];
    const parser = createParser({
      onEvent: (event) => {
        told += countOf(event);
        if (event.event === "omitted") omitted += countOf(event);
      },
    });
    live.setEncoding("utf8").on("data", (part: string) => parser.feed(part));
    await eventually(() => expect(told).toBe(seen));
    expect(omitted).toBeGreaterThan(0);
    live.destroy();
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
      ["/conversations?limit=201", 400],
      ["/conversations?cursor=nonsense", 400],
      ["/conversations?filter=foo:bar", 400],
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
    for (const path of ["/exchanges", "/sessions", "/conversations", "/figures", "/topology"])
      expect(await admin.ask(path)).toMatchObject({ status: 404, json: { error: { code: "not_found" } } });
  });
});
