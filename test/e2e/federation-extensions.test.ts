import { once } from "node:events";

import { describe, expect, it } from "vitest";

import { type Era, newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { nextMessage, openSession } from "../support/legacy-session.ts";
import { type LocalGateway, openGateway } from "../support/local-gateway.ts";
import { type RawMember, startRawMember } from "../support/raw-member.ts";
import { openStream, post, postHeaders, type RawStream } from "../support/raw-http.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

type Json = Readonly<Record<string, unknown>>;

interface Answer {
  readonly result?: Json;
  readonly error?: { readonly code: number; readonly message: string };
}

interface Client {
  readonly send: (method: string, params?: Json) => Promise<Answer>;
  /** Opens the stream that notifications come on. */
  readonly listen: (notifications: Json) => Promise<RawStream>;
}

const tasksExtension = "io.modelcontextprotocol/tasks";
const envelope = {
  "io.modelcontextprotocol/protocolVersion": newestModern,
  "io.modelcontextprotocol/clientCapabilities": { elicitation: {}, extensions: { [tasksExtension]: {} } },
};

async function connect({ url }: LocalGateway, era: Era): Promise<Client> {
  let id = 0;
  const session = era === "legacy" ? await openSession(url, newestLegacy) : undefined;
  const requestOf = (method: string, params: Json) => {
    const meta = session === undefined ? { _meta: envelope } : {};
    const name = params["name"] ?? params["uri"] ?? params["taskId"];
    const own = {
      "mcp-protocol-version": newestModern,
      "mcp-method": method,
      ...(typeof name === "string" ? { "mcp-name": name } : {}),
    };
    return {
      headers: session?.headers ?? own,
      body: { jsonrpc: "2.0", id: ++id, method, params: { ...params, ...meta } },
    };
  };
  return {
    send: async (method, params = {}) => {
      const { headers, body } = requestOf(method, params);
      const { json, events } = await post(url, body, headers);
      return (json ?? JSON.parse(events.at(-1)?.data ?? "null")) as Answer;
    },
    listen: async (notifications) => {
      if (session !== undefined) return session.listen();
      const { headers, body } = requestOf("subscriptions/listen", { notifications });
      const stream = await openStream(url, { method: "POST", headers: { ...postHeaders, ...headers }, body });
      expect(await nextMessage(stream)).toMatchObject({ method: "notifications/subscriptions/acknowledged" });
      return stream;
    },
  };
}

const wait = { listing: { wait: "30s" } };

const openTwo = (a: RawMember, b: RawMember): Promise<LocalGateway> =>
  openGateway({
    routes: {
      all: {
        upstreams: { a: { url: a.url, era: a.era, title: "Alpha" }, b: { url: b.url, era: b.era, title: "Beta" } },
        federation: wait,
      },
    },
  });

/** A server whose only tool begins a task, always with the same id. */
function startTaskMember(era: Era, name: string): Promise<RawMember> {
  const at = "2026-11-17T00:00:00Z";
  const task = { taskId: "t1", status: "working", createdAt: at, lastUpdatedAt: at, ttl: 60_000 };
  const modernTask = { ...task, ttlMs: 60_000 };
  const capabilities =
    era === "legacy"
      ? { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }
      : { tools: {}, extensions: { [tasksExtension]: {} } };
  const tool = { name: "work", inputSchema: { type: "object" }, execution: { taskSupport: "optional" } };
  const done = { content: [{ type: "text", text: `${name} is done` }] };
  return startRawMember(era, {
    capabilities,
    answer: (method) => {
      if (method === "tools/list") return { tools: [tool], ttlMs: 0, cacheScope: "private" };
      if (method === "tools/call") return era === "legacy" ? { task } : { resultType: "task", ...modernTask };
      if (method === "tasks/list") return { tasks: [task] };
      if (method === "tasks/result")
        return { ...done, _meta: { "io.modelcontextprotocol/related-task": { taskId: "t1" } } };
      if (method === "tasks/get") return era === "legacy" ? task : { ...modernTask, status: "completed", result: done };
      if (method === "tasks/cancel") return era === "legacy" ? { ...task, status: "cancelled" } : {};
      return method === "tasks/update" ? {} : { code: -32_601, message: "no" };
    },
  });
}

describe("tasks of two servers that use the same ids", () => {
  it("are told apart, and every method reaches the server of the task: legacy", async () => {
    await using a = await startTaskMember("legacy", "a");
    await using b = await startTaskMember("legacy", "b");
    await using gateway = await openTwo(a, b);
    const { send, listen } = await connect(gateway, "legacy");
    const begin = (name: string) => send("tools/call", { name, arguments: {}, task: { ttl: 60_000 } });
    expect(await begin("a__work")).toMatchObject({ result: { task: { taskId: "a:t1" } } });
    expect(await begin("b__work")).toMatchObject({ result: { task: { taskId: "b:t1" } } });
    expect(await send("tasks/get", { taskId: "b:t1" })).toMatchObject({ result: { taskId: "b:t1" } });
    expect(await send("tasks/result", { taskId: "b:t1" })).toMatchObject({
      result: {
        content: [{ text: "b is done" }],
        _meta: { "io.modelcontextprotocol/related-task": { taskId: "b:t1" } },
      },
    });
    expect(await send("tasks/cancel", { taskId: "b:t1" })).toMatchObject({ result: { taskId: "b:t1" } });
    for (const method of ["tasks/get", "tasks/result", "tasks/cancel"]) {
      expect(a.received(method)).toEqual([]);
      expect(b.received(method)).toEqual([{ taskId: "t1" }]);
    }
    const { result } = await send("tasks/list");
    expect(result?.["tasks"]).toMatchObject([{ taskId: "a:t1" }, { taskId: "b:t1" }]);
    await using stream = await listen({});
    await eventually(() => {
      expect(b.calls.some(({ method }) => method === "GET")).toBe(true);
    });
    await b.notify("notifications/tasks/status", { taskId: "t1", status: "completed" });
    expect(await nextMessage(stream)).toMatchObject({ params: { taskId: "b:t1", status: "completed" } });
    for (const taskId of ["t1", "c:t1", ":t1", "b"]) {
      expect((await send("tasks/get", { taskId })).error).toBeDefined();
    }
  });

  it("are told apart, and every method reaches the server of the task: modern", async () => {
    await using a = await startTaskMember("modern", "a");
    await using b = await startTaskMember("modern", "b");
    await using gateway = await openTwo(a, b);
    const { send, listen } = await connect(gateway, "modern");
    expect(await send("server/discover")).toMatchObject({
      result: { capabilities: { extensions: { [tasksExtension]: {} } } },
    });
    for (const name of ["a", "b"])
      expect(await send("tools/call", { name: `${name}__work`, arguments: {} })).toMatchObject({
        result: { resultType: "task", taskId: `${name}:t1` },
      });
    expect(await send("tasks/get", { taskId: "b:t1" })).toMatchObject({
      result: { taskId: "b:t1", status: "completed", result: { content: [{ text: "b is done" }] } },
    });
    expect((await send("tasks/update", { taskId: "b:t1", inputResponses: {} })).result).toBeDefined();
    expect((await send("tasks/cancel", { taskId: "b:t1" })).result).toBeDefined();
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      expect(a.received(method)).toEqual([]);
      expect(b.received(method)).toMatchObject([{ taskId: "t1" }]);
    }
    await using stream = await listen({ taskIds: ["b:t1", "a:t1"] });
    for (const member of [a, b])
      expect(member.received("subscriptions/listen")).toEqual([{ notifications: { taskIds: ["t1"] } }]);
    await b.notify("notifications/tasks", { taskId: "t1", status: "working" });
    expect(await nextMessage(stream)).toMatchObject({ method: "notifications/tasks", params: { taskId: "b:t1" } });
  });

  it.each([
    ["legacy", "modern"],
    ["modern", "legacy"],
  ] as const)("are not offered to a %s client of %s servers, whose tasks are others", async (client, server) => {
    await using a = await startTaskMember(server, "a");
    await using b = await startTaskMember(server, "b");
    await using gateway = await openTwo(a, b);
    const { send } = await connect(gateway, client);
    if (client === "modern") expect(JSON.stringify(await send("server/discover"))).not.toContain(tasksExtension);
    expect((await send("tasks/get", { taskId: "b:t1" })).error).toBeDefined();
    expect([...a.received("tasks/get"), ...b.received("tasks/get")]).toEqual([]);
  });
});

describe("the state of a call that waits for input", () => {
  it("leads back to the server that gave it, and to no other server or tool", async () => {
    const start = (name: string) =>
      startRawMember("modern", {
        capabilities: { tools: {} },
        answer: (method, params) => {
          if (method !== "tools/call") return { tools: [], ttlMs: 0, cacheScope: "private" };
          if ("requestState" in params)
            return { content: [{ type: "text", text: `${name} ${String(params["requestState"])}` }] };
          const ask = {
            method: "elicitation/create",
            params: { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
          };
          return { resultType: "input_required", requestState: `state of ${name}`, inputRequests: { sure: ask } };
        },
      });
    await using a = await start("a");
    await using b = await start("b");
    await using gateway = await openTwo(a, b);
    const { send } = await connect(gateway, "modern");
    const { result } = await send("tools/call", { name: "b__go", arguments: {} });
    expect(result).toMatchObject({ inputRequests: { sure: { params: { message: "Beta: Sure?" } } } });
    const requestState = String(result?.["requestState"]);
    expect(requestState).not.toContain("state of b");
    const inputResponses = { sure: { action: "accept", content: {} } };
    const retry = (name: string, state: string) =>
      send("tools/call", { name, arguments: {}, inputResponses, requestState: state });
    expect(await retry("b__go", requestState)).toMatchObject({ result: { content: [{ text: "b state of b" }] } });
    for (const state of [requestState, "state of a", `${requestState.slice(0, -2)}xx`])
      expect((await retry("a__go", state)).error?.code).toBe(-32_602);
    expect(a.received("tools/call")).toEqual([]);
  });
});

const eras = ["legacy", "modern"] as const;
const cells = eras.flatMap((clientEra) => eras.map((serverEra) => ({ clientEra, serverEra })));

describe.each(cells)(
  "a method of an extension, $clientEra client and $serverEra servers",
  ({ clientEra, serverEra }) => {
    const start = (hasIt: boolean) =>
      startRawMember(serverEra, {
        capabilities: { tools: {}, ...(hasIt ? { acme: {}, extensions: { "com.example/acme": {} } } : {}) },
        answer: (method) => (method === "acme/do" ? { done: true } : { tools: [], ttlMs: 0, cacheScope: "private" }),
      });

    it("goes to the one server that offers it", async () => {
      await using a = await start(false);
      await using b = await start(true);
      await using gateway = await openTwo(a, b);
      const { send } = await connect(gateway, clientEra);
      if (clientEra === "modern") await send("server/discover");
      expect(await send("acme/do", { what: 1 })).toMatchObject({ result: { done: true } });
      expect(a.received("acme/do")).toEqual([]);
      expect(b.received("acme/do")).toEqual([{ what: 1 }]);
    });

    it.each([[false], [true]])("goes nowhere where several servers, or none, offer it: %s", async (haveIt) => {
      await using a = await start(haveIt);
      await using b = await start(haveIt);
      await using gateway = await openTwo(a, b);
      const { send } = await connect(gateway, clientEra);
      if (clientEra === "modern") await send("server/discover");
      expect((await send("acme/do")).error?.code).toBe(-32_601);
      expect([...a.received("acme/do"), ...b.received("acme/do")]).toEqual([]);
    });
  },
);

describe("skills of several servers", () => {
  const extension = "io.modelcontextprotocol/skills";
  const start = (name: string) =>
    startRawMember("modern", {
      capabilities: { tools: {}, resources: {}, extensions: { [extension]: {} } },
      answer: (method, { uri, cursor }) => {
        const skillOf = (which: string) => ({
          uri: `skill://${which}`,
          frontmatter: { name: which, description: `${which} of ${name}` },
          resources: [{ uri: `skill://${which}/notes.md`, digest: "sha256:0", size: 1 }],
        });
        const cache = { ttlMs: 0, cacheScope: "private" };
        if (method === "skills/list")
          return cursor === undefined
            ? { skills: [skillOf(name)], nextCursor: "2", ...cache }
            : { skills: [skillOf(`${name}-2`), skillOf("shared")], ...cache };
        if (method !== "skills/get") return { tools: [], ...cache };
        const which = String(uri).slice("skill://".length);
        if (which !== "shared" && !which.startsWith(name)) return { code: -32_602, message: "no such skill" };
        return { skill: skillOf(which), ...cache };
      },
    });
  const uriOf = (skill: unknown): unknown => Object(skill)["uri"] as unknown;

  it("are listed together, and each is had from its server", async () => {
    await using a = await start("a");
    await using b = await start("b");
    await using gateway = await openTwo(a, b);
    const { send } = await connect(gateway, "modern");
    expect(JSON.stringify(await send("server/discover"))).toContain(extension);
    // Not listed yet: each server is asked.
    expect(await send("skills/get", { uri: "skill://b-2" })).toMatchObject({
      result: { skill: { frontmatter: { description: "b-2 of b" } } },
    });
    const listed = ((await send("skills/list")).result?.["skills"] ?? []) as readonly unknown[];
    expect(listed.map(uriOf)).toEqual(["skill://a", "skill://a-2", "skill://shared", "skill://b", "skill://b-2"]);
    const before = a.received("skills/get").length;
    expect(await send("skills/get", { uri: "skill://b" })).toMatchObject({ result: { skill: { uri: "skill://b" } } });
    expect(a.received("skills/get")).toHaveLength(before);
    expect(await send("skills/get", { uri: "skill://shared" })).toMatchObject({
      result: { skill: { frontmatter: { description: "shared of a" } } },
    });
    expect((await send("skills/get", { uri: "skill://nobody" })).error?.code).toBe(-32_602);
    expect((await send("skills/list", { cursor: "2" })).error?.code).toBe(-32_602);
  });

  it("are hidden where a rule closes a server, and told apart by prefixes", async () => {
    await using a = await start("a");
    await using b = await start("b");
    const upstreams = {
      a: { url: a.url, era: a.era, uris: "prefix" },
      b: { url: b.url, era: b.era, uris: "prefix" },
    } as const;
    await using gateway = await openGateway({
      routes: {
        all: { upstreams, federation: wait },
        open: { upstreams, federation: wait, policy: { rules: [{ deny: 'mcp.upstream == "b"' }, { allow: "true" }] } },
      },
    });
    const skillsAt = async (route: string): Promise<readonly unknown[]> => {
      const { send } = await connect({ ...gateway, url: `${gateway.origin}/${route}/mcp` }, "modern");
      await send("server/discover");
      return ((await send("skills/list")).result?.["skills"] ?? []) as readonly unknown[];
    };
    const ofA = ["a+skill://a", "a+skill://a-2", "a+skill://shared"];
    const listed = await skillsAt("all");
    expect(listed.map(uriOf)).toEqual([...ofA, "b+skill://b", "b+skill://b-2", "b+skill://shared"]);
    expect(listed[0]).toMatchObject({ resources: [{ uri: "a+skill://a/notes.md" }] });
    expect((await skillsAt("open")).map(uriOf)).toEqual(ofA);
    const { send } = await connect({ ...gateway, url: `${gateway.origin}/open/mcp` }, "modern");
    await send("server/discover");
    expect((await send("skills/get", { uri: "b+skill://shared" })).result).toBeUndefined();
    expect(await send("skills/get", { uri: "a+skill://shared" })).toMatchObject({
      result: { skill: { uri: "a+skill://shared" } },
    });
    expect(a.received("skills/get")).toEqual([{ uri: "skill://shared" }]);
    expect(b.received("skills/get")).toEqual([]);
  });
});

describe("a question that its server takes back", () => {
  it("is taken back from the client, under the id that the client knows", async () => {
    const asking = (name: string) => () => {
      const server = createToolServer({ name });
      server.registerTool("ask", {}, async () => {
        const leaving = new AbortController();
        const asked = server.server.elicitInput(
          { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
          { signal: leaving.signal },
        );
        leaving.abort("no longer needed");
        return { content: [{ type: "text", text: await asked.then(String, () => `${name} went on`) }] };
      });
      return server;
    };
    await using gateway = await openGateway({
      routes: { all: { upstreams: { a: { server: asking("a") }, b: { server: asking("b") } } } },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, newestLegacy);
    const takenBack: string[] = [];
    client.sdk.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
      if (!mcpReq.signal.aborted) await once(mcpReq.signal, "abort");
      takenBack.push(params.message);
      return { action: "cancel" };
    });
    const called = await Promise.all([client.callTool("a__ask"), client.callTool("b__ask")]);
    expect(called.map(({ texts }) => texts)).toEqual([["a went on"], ["b went on"]]);
    await eventually(() => {
      expect(takenBack.toSorted()).toEqual(["a: Sure?", "b: Sure?"]);
    });
  });
});

describe("a ping", () => {
  it("is answered here, whatever the servers do", async () => {
    await using a = await startRawMember("legacy", { capabilities: {}, answer: () => ({ code: 1, message: "no" }) });
    await using gateway = await openTwo(a, a);
    const { send } = await connect(gateway, "legacy");
    expect(await send("ping")).toMatchObject({ result: {} });
    expect(a.received("ping")).toEqual([]);
  });
});
