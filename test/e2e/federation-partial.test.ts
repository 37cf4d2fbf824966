import { describe, expect, it } from "vitest";

import { createLogger } from "../../src/telemetry/log.ts";
import { newestLegacy, newestModern, type Revision } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { startFixture } from "../support/fixture.ts";
import { freePort } from "../support/free-port.ts";
import { openSession } from "../support/legacy-session.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { type LocalGateway, openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { type RawMember, startRawMember } from "../support/raw-member.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

type Json = Readonly<Record<string, unknown>>;

interface Answer {
  readonly result?: Json;
  readonly error?: { readonly code: number; readonly message: string };
}

/** Every list, with an entry of a server. */
const lists: Readonly<Record<string, (from: string) => Json>> = {
  "tools/list": (from) => ({ tools: [{ name: `of_${from}`, inputSchema: { type: "object" } }] }),
  "prompts/list": (from) => ({ prompts: [{ name: `of_${from}` }] }),
  "resources/list": (from) => ({ resources: [{ uri: `${from}://of_${from}`, name: "x" }] }),
  "resources/templates/list": (from) => ({
    resourceTemplates: [{ uriTemplate: `${from}://of_${from}/{x}`, name: "x" }],
  }),
  "tasks/list": (from) => ({ tasks: [{ taskId: `of_${from}`, status: "working" }] }),
};
const capabilities = { tools: {}, prompts: {}, resources: {}, tasks: { list: {} } };

/** A server whose lists come, or fail. */
function startLister(name: string, isFailing: () => boolean = () => false): Promise<RawMember> {
  return startRawMember("legacy", {
    capabilities,
    answer: (method) => (isFailing() ? { code: -32_000, message: "ill" } : (lists[method]?.(name) ?? {})),
  });
}

async function connect({ url }: LocalGateway, revision: Revision) {
  let id = 0;
  const session = revision === newestModern ? undefined : await openSession(url, revision);
  return async (method: string): Promise<Answer> => {
    const { json, events } =
      session === undefined
        ? await postModern(url, modernRequest(++id, method))
        : await session.post({ jsonrpc: "2.0", id: ++id, method, params: {} });
    return (json ?? JSON.parse(events.at(-1)?.data ?? "null")) as Answer;
  };
}

// Tasks of a legacy server are not those of a modern client.
const cases = [newestLegacy, newestModern].flatMap((revision) =>
  Object.keys(lists)
    .filter((method) => revision === newestLegacy || method !== "tasks/list")
    .map((method) => ({ revision, method })),
);

describe.each(cases)("$method of several servers, with a client of $revision", ({ revision, method }) => {
  it("says which server it lacks, in the result, the log and the metrics", async () => {
    await using good = await startLister("good");
    await using bad = await startLister("bad", () => true);
    const lines: string[] = [];
    const log = createLogger({ level: "warn", pretty: false, destination: { write: (line) => lines.push(line) } });
    await using gateway = await openGateway(
      { routes: { all: { upstreams: { bad: { url: bad.url }, good: { url: good.url } } } }, admin: { port: 0 } },
      { log },
    );
    const send = await connect(gateway, revision);
    const { result } = await send(method);
    expect(JSON.stringify(result)).toContain("of_good");
    expect(result?.["_meta"]).toMatchObject({
      "headgate/degraded": [
        {
          upstream: "bad",
          reason: "the server answered error -32000",
          since: expect.stringMatching(/^\d{4}-/u) as string,
          stale: false,
        },
      ],
    });
    const warning = lines.find((line) => line.includes("list without a server"));
    expect(JSON.parse(warning ?? "{}")).toMatchObject({
      level: "warn",
      exchange: expect.stringMatching(/-n\.\d+-\d+$/u),
      route: "all",
      member: "bad",
      method,
    });
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    expect(metrics).toContain('headgate_degraded_lists_total{route="all",member="bad"} 1');
  });

  it("shows what a server listed before it failed, and says so", async () => {
    let isIll = false;
    await using good = await startLister("good");
    await using bad = await startLister("bad", () => isIll);
    await using gateway = await openGateway({
      routes: { all: { upstreams: { bad: { url: bad.url }, good: { url: good.url } } } },
    });
    const send = await connect(gateway, revision);
    expect(JSON.stringify((await send(method)).result)).toContain("of_bad");
    isIll = true;
    const { result } = await send(method);
    expect(JSON.stringify(result)).toMatch(/of_bad.*of_good/u);
    expect(result?.["_meta"]).toMatchObject({ "headgate/degraded": [{ upstream: "bad", stale: true }] });
    isIll = false;
    expect(JSON.stringify((await send(method)).result)).not.toContain("headgate/degraded");
  });

  it("is an error where no server answers, or one that is required", async () => {
    await using good = await startLister("good");
    await using bad = await startLister("bad", () => true);
    const [ill, well] = [{ url: bad.url }, { url: good.url }];
    const partial = { listing: { partial: "refuse" as const } };
    await using gateway = await openGateway({
      routes: {
        none: { upstreams: { bad: ill, worse: ill } },
        required: { upstreams: { bad: { ...ill, required: true }, good: well } },
        strict: { upstreams: { bad: ill, good: well }, federation: partial },
        other: { upstreams: { bad: ill, good: { ...well, required: true } } },
      },
    });
    const answerOf = async (route: string) =>
      (await connect({ ...gateway, url: `${gateway.origin}/${route}/mcp` }, revision))(method);
    for (const route of ["none", "required", "strict"]) {
      const { result, error } = await answerOf(route);
      expect(result).toBeUndefined();
      expect(error?.message).toMatch(/the list is incomplete: bad \(/u);
    }
    expect((await answerOf("other")).result).toBeDefined();
  });
});

describe.each([newestLegacy, newestModern])("a server that was away, with a client of %s", (revision) => {
  it.each(["from the beginning", "for a while"])("%s: the client hears when it is back", async (when) => {
    await using fixture = await startFixture({ era: "dual" });
    await using proxy = await startTcpProxy(Number(new URL(fixture.url).port));
    if (when === "from the beginning") proxy.cut();
    const home = { server: () => createToolServer({ name: "home", tools: ["x"] }) };
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: { away: { url: `http://127.0.0.1:${proxy.port}/mcp` }, home },
          // What was listed before is not shown, so that there is something to tell.
          federation: { listing: { stale: "1ms" } },
        },
      },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    if (revision === newestModern) await client.sdk.listen({ toolsListChanged: true });
    const told = (): number =>
      client.notified.filter(({ method }) => method === "notifications/tools/list_changed").length;
    if (when === "for a while") {
      expect(await client.listTools()).toContain("away__test_simple_text");
      proxy.cut();
    }
    await eventually(async () => {
      expect(await client.listTools()).toEqual(["home__x"]);
    });
    await expect(client.callTool("away__test_simple_text")).rejects.toThrow(/./u);
    expect((await client.callTool("home__x")).texts).toEqual(["home.x {}"]);
    const before = told();
    proxy.heal();
    await eventually(() => {
      expect(told()).toBeGreaterThan(before);
    });
    expect(await client.listTools()).toContain("away__test_simple_text");
    expect((await client.callTool("away__test_simple_text")).isError).toBe(false);
  });
});

describe("a server that comes when a client has set its log level", () => {
  it("is told of it", async () => {
    await using late = await startRawMember("legacy", {
      capabilities: { tools: {}, logging: {} },
      answer: (method) => (method === "tools/call" ? { content: [] } : {}),
    });
    await using proxy = await startTcpProxy(Number(new URL(late.url).port));
    proxy.cut();
    const home = { server: () => createToolServer({ name: "home", tools: ["x"] }) };
    await using gateway = await openGateway({
      routes: { all: { upstreams: { late: { url: `http://127.0.0.1:${proxy.port}/mcp`, era: "legacy" }, home } } },
    });
    const session = await openSession(gateway.url, newestLegacy);
    const send = (id: number, method: string, params: Json) => session.post({ jsonrpc: "2.0", id, method, params });
    await send(1, "logging/setLevel", { level: "warning" });
    expect(late.received("logging/setLevel")).toEqual([]);
    proxy.heal();
    await eventually(async () => {
      expect((await send(2, "tools/call", { name: "late__x", arguments: {} })).status).toBe(200);
    });
    await eventually(() => {
      expect(late.received("logging/setLevel")).toEqual([{ level: "warning" }]);
    });
  });
});

describe("a server that refuses what others do", () => {
  it.each<[string, (call: UpstreamCall, id: unknown) => void]>([
    ["has no such method", (call, id) => call.reply({ jsonrpc: "2.0", id, error: { code: -32_601, message: "no" } })],
    ["takes no more requests for now", (call) => call.replyRaw(429, { "retry-after": "30" })],
  ])("is not ill: it %s", async (_what, refuse) => {
    await using busy = await fakeUpstream((call) => refuse(call, sentMessage(call).id));
    const home = { server: () => createToolServer({ name: "home", tools: ["x"] }) };
    const ill = { url: `http://127.0.0.1:${await freePort()}/mcp`, era: "modern" } as const;
    await using gateway = await openGateway({
      routes: { all: { upstreams: { busy: { url: busy.url, era: "modern" }, home, ill } } },
    });
    let id = 0;
    const call = async (name: string): Promise<Answer> =>
      (await postModern(gateway.url, modernRequest(++id, "tools/call", { name, arguments: {} }))).json as Answer;
    expect((await call("home__x")).result).toBeDefined();
    expect((await call("busy__x")).error).toBeDefined();
    expect(gateway.gateway.health()).toEqual({ all: "ok" });
    expect((await call("ill__x")).error).toBeDefined();
    expect(gateway.gateway.health()).toEqual({ all: expect.stringMatching(/^failing: ill: /u) as string });
    expect((await call("home__x")).result).toBeDefined();
  });
});

describe("a server that fails when all are asked", () => {
  const extension = "io.modelcontextprotocol/skills";
  const offered = { resources: {}, extensions: { [extension]: {} } };
  const cache = { ttlMs: 0, cacheScope: "private" };

  // One that takes no more requests for now is told apart from a limit of the gateway.
  it.each<[string, (call: UpstreamCall) => void]>([
    ["hangs up", (call) => call.hangUp()],
    ["answers 401", (call) => call.replyRaw(401)],
    ["answers 429", (call) => call.replyRaw(429, { "retry-after": "30" })],
    ["answers 500", (call) => call.replyRaw(500)],
    ["answers 503", (call) => call.replyRaw(503, { "retry-after": "30" })],
  ])("%s: the others are asked all the same, and a failed call says who failed", async (_what, fail) => {
    await using bad = await fakeUpstream((call) => {
      const { id, method } = sentMessage(call);
      if (method !== "server/discover") return fail(call);
      const result = { resultType: "complete", supportedVersions: [newestModern], capabilities: offered, ...cache };
      return call.reply({ jsonrpc: "2.0", id, result });
    });
    await using good = await startRawMember("modern", {
      capabilities: offered,
      answer: (method, { uri }) => {
        if (method === "resources/read") return { contents: [{ uri, text: "of good" }], ...cache };
        return method === "skills/list" ? { skills: [{ uri: "skill://good" }], ...cache } : { resources: [], ...cache };
      },
    });
    await using gateway = await openGateway({
      routes: { all: { upstreams: { bad: { url: bad.url, era: "modern" }, good: { url: good.url, era: "modern" } } } },
    });
    let id = 0;
    const send = async (method: string, params: Json = {}): Promise<Answer> =>
      (await postModern(gateway.url, modernRequest(++id, method, params))).json as Answer;
    await send("server/discover");
    expect(await send("resources/read", { uri: "memo:unlisted" })).toMatchObject({
      result: { contents: [{ text: "of good" }] },
    });
    expect(await send("skills/list")).toMatchObject({
      result: { skills: [{ uri: "skill://good" }], _meta: { "headgate/degraded": [{ upstream: "bad" }] } },
    });
    expect(await send("tools/call", { name: "bad__x", arguments: {} })).toMatchObject({
      error: { message: expect.stringMatching(/^bad: the /u) as string, data: { upstream: "bad" } },
    });
  });
});
