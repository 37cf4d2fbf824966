import { describe, expect, it } from "vitest";

import { createEverythingServer } from "../fixtures/everything/server.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { startFixture } from "../support/fixture.ts";
import { handshake, nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern, streamModern } from "../support/modern-request.ts";
import { exchange, openStream, post } from "../support/raw-http.ts";
import { bearer, startIssuer, type TestIssuer, type TokenFacts } from "../support/tokens.ts";

const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });
const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const unknown = { status: 404, json: { error: { code: -32_001, data: { code: "session_unknown" } } } };

function authOf(issuer: TestIssuer) {
  return { authenticators: { staff: { jwt: { issuer: issuer.url, clockSkew: 0 } } } };
}

async function shown(issuer: TestIssuer, url: string, subject: string, facts: TokenFacts = {}) {
  return bearer(await issuer.token({ audience: url, subject, ...facts }));
}

describe("a session of one principal", () => {
  it("is unknown to every other, whatever it wants with it", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-11-25", await shown(issuer, gateway.url, "alice"));
    const theirs = { ...session.headers, ...(await shown(issuer, gateway.url, "bob")) };
    expect(await post(gateway.url, ping, theirs)).toMatchObject(unknown);
    const stream = { ...theirs, accept: "text/event-stream" };
    expect(await exchange(gateway.url, { headers: stream })).toMatchObject(unknown);
    expect(await exchange(gateway.url, { method: "DELETE", headers: theirs })).toMatchObject(unknown);
    // The same answer as for an id that never was.
    expect(await post(gateway.url, ping, { ...theirs, "mcp-session-id": "never" })).toMatchObject(unknown);
    expect(upstream.received("ping")).toHaveLength(0);
    expect((await session.post(ping)).status).toBe(200);
  });

  it("goes on with a newer token of the same principal", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-11-25", await shown(issuer, gateway.url, "alice"));
    const renewed = await shown(issuer, gateway.url, "alice", { expiresIn: 900 });
    expect((await post(gateway.url, ping, { ...session.headers, ...renewed })).status).toBe(200);
  });

  it("gives its streams to nobody else who names one of their events", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(async (call, { id }) => {
      const stream = call.stream();
      await stream.send({
        jsonrpc: "2.0",
        method: "notifications/message",
        params: { level: "info", data: "secret" },
      });
      await stream.send(textResult(id, "secret"));
      stream.end();
    });
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const alice = await openSession(gateway.url, "2025-11-25", await shown(issuer, gateway.url, "alice"));
    const bob = await openSession(gateway.url, "2025-11-25", await shown(issuer, gateway.url, "bob"));
    const streamed = await alice.stream(toolCall(1, "tell"));
    const first = await streamed.next();
    const eventId = first?.id ?? "";
    expect(eventId).not.toBe("");
    const inOwnSession = await bob.listen(eventId);
    expect(inOwnSession.status).toBe(400);
    inOwnSession.close();
    const inAlices = await openStream(gateway.url, {
      headers: {
        ...alice.headers,
        ...(await shown(issuer, gateway.url, "bob")),
        accept: "text/event-stream",
        "last-event-id": eventId,
      },
    });
    expect(inAlices.status).toBe(404);
    await using resumed = await alice.listen(eventId);
    expect(await nextMessage(resumed)).toMatchObject({ method: "notifications/message" });
  });

  it("over HTTP+SSE is unknown to others too", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const alice = await shown(issuer, `${gateway.origin}/sse`, "alice");
    await using stream = await openStream(`${gateway.origin}/sse`, {
      headers: { ...alice, accept: "text/event-stream" },
    });
    const endpoint = new URL((await stream.next())?.data ?? "", gateway.origin).href;
    const bob = await shown(issuer, `${gateway.origin}/sse`, "bob");
    expect(await post(endpoint, handshake("2024-11-05"), bob)).toMatchObject({ status: 404 });
    expect((await post(endpoint, handshake("2024-11-05"), alice)).status).toBe(202);
    expect(await nextMessage(stream)).toMatchObject({ id: "hello", result: {} });
  });
});

describe("a task of one principal", () => {
  const tasksCapability = { "io.modelcontextprotocol/tasks": {} };

  function taskRequest(
    id: number,
    method: string,
    params: Readonly<Record<string, unknown>>,
    headers: Readonly<Record<string, string>>,
  ) {
    const request = modernRequest(id, method, params);
    const body = JSON.parse(JSON.stringify(request.body)) as { params: { _meta: Record<string, unknown> } };
    body.params._meta["io.modelcontextprotocol/clientCapabilities"] = { extensions: tasksCapability };
    const named = typeof params["taskId"] === "string" ? { "mcp-name": params["taskId"] } : {};
    return { headers: { ...request.headers, ...named, ...headers }, body };
  }

  it("does not exist for anybody else, over the modern era", async () => {
    await using issuer = await startIssuer();
    const seen: string[] = [];
    await using upstream = await fakeUpstream((call) => {
      const { id, method } = sentMessage(call);
      seen.push(method ?? "");
      const task = { taskId: "task-1", status: "working", createdAt: "2026-01-01T00:00:00Z", ttlMs: 60_000 };
      if (method === "server/discover") {
        const result = {
          resultType: "complete",
          supportedVersions: ["2026-07-28"],
          capabilities: { tools: {} },
        };
        return call.reply({ jsonrpc: "2.0", id, result });
      }
      const resultType = method === "tools/call" ? "task" : "complete";
      return call.reply({ jsonrpc: "2.0", id, result: { resultType, ...task } });
    });
    await using gateway = await openGateway({
      auth: authOf(issuer),
      upstream: { url: upstream.url, era: "modern" },
    });
    const alice = await shown(issuer, gateway.url, "alice");
    const bob = await shown(issuer, gateway.url, "bob");
    const begun = await postModern(gateway.url, taskRequest(1, "tools/call", { name: "slow", arguments: {} }, alice));
    expect(begun.json).toMatchObject({ result: { taskId: "task-1" } });
    const asked = seen.length;
    const noTask = { error: { code: -32_602, message: "unknown task" } };
    for (const method of ["tasks/get", "tasks/cancel", "tasks/update"]) {
      const params = { taskId: "task-1", ...(method === "tasks/update" ? { inputResponses: {} } : {}) };
      expect((await postModern(gateway.url, taskRequest(2, method, params, bob))).json).toMatchObject(noTask);
    }
    const never = taskRequest(3, "tasks/get", { taskId: "never-was" }, alice);
    expect((await postModern(gateway.url, never)).json).toMatchObject(noTask);
    const listening = taskRequest(4, "subscriptions/listen", { notifications: { taskIds: ["task-1"] } }, bob);
    expect((await postModern(gateway.url, listening)).json).toMatchObject(noTask);
    expect(seen).toHaveLength(asked);
    const own = await postModern(gateway.url, taskRequest(5, "tasks/get", { taskId: "task-1" }, alice));
    expect(own.json).toMatchObject({ result: { taskId: "task-1" } });
  });

  it("is neither found nor listed by anybody else, over a legacy session", async () => {
    await using issuer = await startIssuer();
    let made = 0;
    const tasks: { taskId: string; status: string }[] = [];
    await using upstream = await legacyUpstream((call, { id, method }) => {
      const reply = (result: unknown): void => call.reply({ jsonrpc: "2.0", id, result });
      if (method !== "tools/call") return reply(method === "tasks/list" ? { tasks, nextCursor: "more" } : tasks[0]);
      made += 1;
      const task = { taskId: `task-${made}`, status: "working" };
      tasks.push(task);
      return reply({ task });
    });
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const alice = await openSession(gateway.url, "2025-11-25", await shown(issuer, gateway.url, "alice"));
    const bob = await openSession(gateway.url, "2025-11-25", await shown(issuer, gateway.url, "bob"));
    await alice.post(toolCall(1, "slow", { task: {} }));
    await bob.post(toolCall(1, "slow", { task: {} }));
    const list = { jsonrpc: "2.0", id: 2, method: "tasks/list" };
    expect((await alice.post(list)).json).toMatchObject({
      result: { tasks: [{ taskId: "task-1" }], nextCursor: "more" },
    });
    expect((await bob.post(list)).json).toMatchObject({ result: { tasks: [{ taskId: "task-2" }] } });
    for (const method of ["tasks/get", "tasks/result", "tasks/cancel"]) {
      const request = { jsonrpc: "2.0", id: 3, method, params: { taskId: "task-1" } };
      expect((await bob.post(request)).json).toMatchObject({ error: { code: -32_602 } });
      expect(upstream.received(method)).toHaveLength(0);
    }
  });
});

describe("a call of one principal that waits for input", () => {
  it("is not taken up by anybody else who has its state", async () => {
    await using issuer = await startIssuer();
    await using upstream = await startFixture({ era: "legacy" });
    await using gateway = await openGateway({
      auth: authOf(issuer),
      upstream: { url: upstream.url, era: "legacy" },
    });
    const call = async (caller: Readonly<Record<string, string>>, more: Readonly<Record<string, unknown>> = {}) => {
      const params = { name: "test_elicitation", arguments: { message: "who?" }, ...more };
      const { headers, body } = modernRequest(1, "tools/call", params);
      const asked = JSON.stringify(body).replace(
        '"io.modelcontextprotocol/clientCapabilities":{}',
        '"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}',
      );
      return (await post(gateway.url, asked, { ...headers, ...caller })).json as {
        readonly result?: Readonly<Record<string, unknown>>;
        readonly error?: { readonly code: number };
      };
    };
    const alice = await shown(issuer, gateway.url, "alice");
    const first = await call(alice);
    expect(first.result).toMatchObject({ resultType: "input_required" });
    const inputResponses = { "question-1": { action: "accept", content: { response: "me" } } };
    const retry = { inputResponses, requestState: first.result?.["requestState"] };
    expect((await call(await shown(issuer, gateway.url, "bob"), retry)).error).toMatchObject({
      code: -32_602,
    });
    expect((await call(alice, retry)).result).toMatchObject({ resultType: "complete" });
  });
});

describe("a subscription of one principal", () => {
  it("goes on when another cancels an id like it", async () => {
    await using issuer = await startIssuer();
    await using gateway = await openGateway({
      auth: authOf(issuer),
      upstream: { server: () => createEverythingServer() },
    });
    const alice = await shown(issuer, gateway.url, "alice");
    const bob = await shown(issuer, gateway.url, "bob");
    const listen = modernRequest("sub", "subscriptions/listen", {
      notifications: { toolsListChanged: true },
    });
    await using stream = await streamModern(gateway.url, {
      ...listen,
      headers: { ...listen.headers, ...alice },
    });
    expect(await nextMessage(stream)).toMatchObject({ method: "notifications/subscriptions/acknowledged" });
    const cancel = modernRequest("x", "notifications/cancelled", { requestId: "sub" });
    const { id: _id, ...notification } = cancel.body as { readonly id: unknown };
    const cancelled = await post(gateway.url, notification, { ...cancel.headers, ...bob });
    expect(cancelled.status).toBeLessThan(300);
    const change = modernRequest(2, "tools/call", { name: "test_trigger_tool_change", arguments: {} });
    await postModern(gateway.url, { ...change, headers: { ...change.headers, ...alice } });
    expect(await nextMessage(stream)).toMatchObject({ method: "notifications/tools/list_changed" });
  });
});

describe("a token that expires while a stream is open", () => {
  it("ends the GET stream, which a newer token takes up where it was", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const brief = await shown(issuer, gateway.url, "alice", { expiresIn: 2 });
    const session = await openSession(gateway.url, "2025-11-25", brief);
    await using stream = await session.listen();
    expect(stream.status).toBe(200);
    expect(await stream.next()).toBeUndefined();
    expect((await session.post(ping)).status).toBe(401);
    const renewed = { ...session.headers, ...(await shown(issuer, gateway.url, "alice")) };
    expect((await post(gateway.url, ping, renewed)).status).toBe(200);
    await using again = await openStream(gateway.url, {
      headers: { ...renewed, accept: "text/event-stream" },
    });
    expect(again.status).toBe(200);
  });

  it("leaves the stream open when the session has seen a newer one", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const brief = await shown(issuer, gateway.url, "alice", { expiresIn: 2 });
    const session = await openSession(gateway.url, "2025-11-25", brief);
    await using stream = await session.listen();
    expect(stream.status).toBe(200);
    const renewed = { ...session.headers, ...(await shown(issuer, gateway.url, "alice")) };
    expect((await post(gateway.url, ping, renewed)).status).toBe(200);
    await expect.poll(async () => (await session.post(ping)).status).toBe(401);
    // There can be one such stream only, so this one is still there.
    const second = await exchange(gateway.url, { headers: { ...renewed, accept: "text/event-stream" } });
    expect(second.status).toBe(409);
  });

  it("ends the connection over HTTP+SSE", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ auth: authOf(issuer), upstream: { url: upstream.url } });
    const brief = await shown(issuer, `${gateway.origin}/sse`, "alice", { expiresIn: 2 });
    await using stream = await openStream(`${gateway.origin}/sse`, {
      headers: { ...brief, accept: "text/event-stream" },
    });
    expect((await stream.next())?.event).toBe("endpoint");
    expect(await stream.next()).toBeUndefined();
  });

  it("ends what only listens in the modern era", async () => {
    await using issuer = await startIssuer();
    await using gateway = await openGateway({
      auth: authOf(issuer),
      upstream: { server: () => createEverythingServer() },
    });
    const brief = await shown(issuer, gateway.url, "alice", { expiresIn: 2 });
    const listen = modernRequest("sub", "subscriptions/listen", {
      notifications: { toolsListChanged: true },
    });
    await using stream = await streamModern(gateway.url, {
      ...listen,
      headers: { ...listen.headers, ...brief },
    });
    expect(await nextMessage(stream)).toMatchObject({ method: "notifications/subscriptions/acknowledged" });
    expect(await nextMessage(stream)).toBeUndefined();
  });
});

describe("the state of a call that waits for input", () => {
  it("is good for the caller that got it alone, at every route to its server", async () => {
    await using issuer = await startIssuer();
    const continued: unknown[] = [];
    await using upstream = await fakeUpstream((call) => {
      const { id, method, params } = sentMessage(call);
      const reply = (result: object) => call.reply({ jsonrpc: "2.0", id, result });
      if (method === "server/discover")
        return reply({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {} } });
      const given = params?.["requestState"];
      if (given === undefined)
        return reply({
          resultType: "input_required",
          inputRequests: { sure: { method: "elicitation/create", params: { message: "Sure?", requestedSchema: {} } } },
          requestState: "transfer-of-alice",
        });
      continued.push(given);
      return reply({ resultType: "complete", content: [] });
    });
    await using gateway = await openGateway({
      auth: authOf(issuer),
      routes: {
        one: { upstream: { url: upstream.url, era: "modern" } },
        two: { upstream: { url: upstream.url, era: "modern" } },
      },
    });
    const [one, two] = [`${gateway.origin}/one/mcp`, `${gateway.origin}/two/mcp`];
    const send = async (who: string, url: string, more: object = {}) => {
      const { headers, body } = modernRequest(1, "tools/call", { name: "transfer", arguments: {}, ...more });
      const text = JSON.stringify(body).replace('Capabilities":{}', 'Capabilities":{"elicitation":{}}');
      return post(url, text, { ...headers, ...(await shown(issuer, url, who)) });
    };
    const retry = { requestState: "transfer-of-alice", inputResponses: { sure: { action: "accept", content: {} } } };
    expect((await send("alice", one)).json).toMatchObject({ result: { requestState: "transfer-of-alice" } });
    for (const url of [one, two])
      expect((await send("bob", url, retry)).json).toMatchObject({ error: { code: -32_602 } });
    expect(continued).toEqual([]);
    expect((await send("alice", one, retry)).json).toMatchObject({ result: { resultType: "complete" } });
    expect(continued).toEqual(["transfer-of-alice"]);
  });
});
