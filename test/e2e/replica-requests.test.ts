// Requests that go on with something that another gateway holds: a call that waits for input, or a task.
import { randomBytes } from "node:crypto";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { newestModern } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { gatewayClient, startOAuthServer } from "../support/oauth-server.ts";
import { post, type RawAnswer } from "../support/raw-http.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { openPair, type ReplicaPair } from "../support/replicas.ts";

const keys = { ann: formatApiKey(randomBytes(32)), bob: formatApiKey(randomBytes(32)), agent: "" };
const staff = { apiKeys: { keys: { ann: { hash: hashApiKey(keys.ann) }, bob: { hash: hashApiKey(keys.bob) } } } };
const audience = "https://gateways.example/mcp";

let pair: ReplicaPair;
let redis: RedisServer;
const started = new AsyncDisposableStack();
beforeAll(async () => {
  redis = started.use(await startRedis());
  const fixture = started.use(await startFixture({ era: "modern" }));
  const child = (era: "legacy" | "modern") => {
    const [command, ...args] = stdioFixture({ era });
    return { command, args };
  };
  const issuer = started.use(await startOAuthServer());
  keys.agent = await issuer.token({ grant_type: "client_credentials", resource: audience });
  const agents = { jwt: { issuer: issuer.issuer, audience: [audience] } };
  const tokenExchange = {
    resource: audience,
    issuer: issuer.issuer,
    clientId: gatewayClient.id,
    clientSecret: gatewayClient.secret,
  };
  const routes: ConfigInput["routes"] = {
    single: { upstream: child("legacy") },
    federated: {
      upstreams: { it: { ...child("legacy"), prefix: "" } },
      federation: { listing: { wait: "60s" } },
    },
    "tasks-stdio": { upstream: child("modern") },
    "tasks-http": { upstream: { url: fixture.url } },
    "tasks-exchange": { auth: { use: ["agents"] }, upstream: { url: fixture.url, credentials: { tokenExchange } } },
  };
  const auth: ConfigInput["auth"] = { authenticators: { staff, agents }, use: ["staff"] };
  pair = started.use(await openPair(redis.state, { auth, routes }));
});
afterAll(async () => started.disposeAsync());

/** Sends a modern request of a client that can be asked and knows tasks. */
async function send(
  at: "one" | "two",
  route: string,
  method: string,
  params: Readonly<Record<string, unknown>>,
  caller: keyof typeof keys = "ann",
): Promise<RawAnswer> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": newestModern,
    "io.modelcontextprotocol/clientCapabilities": {
      elicitation: { form: {} },
      extensions: { "io.modelcontextprotocol/tasks": {} },
    },
  };
  return post(
    `${pair[at].origin}/${route}/mcp`,
    { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } },
    {
      authorization: `Bearer ${keys[caller]}`,
      "mcp-protocol-version": newestModern,
      "mcp-method": method,
      "mcp-name": String(params["name"] ?? params["taskId"]),
    },
  );
}

const resultOf = ({ json }: RawAnswer): Readonly<Record<string, unknown>> => Reflect.get(Object(json), "result");

/** Calls a tool whose server asks for input; returns the parameters of the retry with the answer. */
async function askedBy(at: "one" | "two", route: string): Promise<Readonly<Record<string, unknown>>> {
  const question = { name: "test_elicitation", arguments: { message: "who?" } };
  const asked = resultOf(await send(at, route, "tools/call", question));
  expect(asked).toMatchObject({ resultType: "input_required", requestState: expect.any(String) });
  const { requestState } = asked;
  const [name = ""] = Object.keys(Object(asked["inputRequests"]));
  const answer = { action: "accept", content: { username: "ann", email: "ann@example.com" } };
  return { ...question, requestState, inputResponses: { [name]: answer } };
}

async function taskOf(at: "one" | "two", route: string, caller?: keyof typeof keys): Promise<unknown> {
  const call = { name: "confirm_delete", arguments: { filename: "a.txt" } };
  const { taskId } = resultOf(await send(at, route, "tools/call", call, caller));
  expect(taskId).toBeTypeOf("string");
  return taskId;
}

describe("the retry of a call that waits for input", () => {
  it.each(["single", "federated"])("reaches the gateway that holds the call: %s", async (route) => {
    const retry = await askedBy("one", route);
    // Nobody else can go on with it, and nothing is learned from trying.
    const stolen = await send("two", route, "tools/call", retry, "bob");
    expect(stolen.json).toMatchObject({ error: { data: { requestState: "broken" } } });
    expect(resultOf(await send("two", route, "tools/call", retry))).toMatchObject({ resultType: "complete" });
    const again = await send("two", route, "tools/call", retry);
    expect(again.json).toMatchObject({ error: { data: { requestState: "used" } } });
  });
});

describe("a task that one gateway started", () => {
  it.each(["tasks-stdio", "tasks-http"])("is served through the other, for its owner alone: %s", async (route) => {
    const taskId = await taskOf("one", route);
    await eventually(async () => {
      const stolen = await send("two", route, "tasks/get", { taskId }, "bob");
      expect(stolen.json).toMatchObject({ error: { message: "unknown task" } });
    });
    await eventually(async () =>
      expect(resultOf(await send("two", route, "tasks/get", { taskId }))).toMatchObject({ status: "input_required" }),
    );
    const inputResponses = { confirm: { action: "accept", content: { confirm: "yes" } } };
    await send("two", route, "tasks/update", { taskId, inputResponses });
    await eventually(async () =>
      expect(resultOf(await send("one", route, "tasks/get", { taskId }))).toMatchObject({ status: "completed" }),
    );
  });
});

describe("a task at a server that is called on behalf of users", () => {
  it("is served through the other gateway with the token of its owner", async () => {
    const taskId = await taskOf("one", "tasks-exchange", "agent");
    const got = await send("two", "tasks-exchange", "tasks/get", { taskId }, "agent");
    expect(got.json).toMatchObject({ result: { taskId } });
  });
});

describe("while the store is away", () => {
  it("a retry reaches the call, a known task its gateway, and one that nobody can tell is refused for a while", async () => {
    const retry = await askedBy("one", "single");
    const [known, unknown] = [await taskOf("one", "tasks-stdio"), await taskOf("one", "tasks-stdio")];
    await eventually(async () =>
      expect(resultOf(await send("two", "tasks-stdio", "tasks/get", { taskId: known }))).toMatchObject({
        taskId: known,
      }),
    );
    await redis.stop();
    try {
      expect(resultOf(await send("two", "single", "tools/call", retry))).toMatchObject({ resultType: "complete" });
      const got = await send("two", "tasks-stdio", "tasks/get", { taskId: known });
      expect(got.json).toMatchObject({ result: { taskId: known } });
      const stolen = await send("two", "tasks-stdio", "tasks/get", { taskId: known }, "bob");
      expect(stolen.json).toMatchObject({ error: { message: "unknown task" } });
      const refused = await send("two", "tasks-stdio", "tasks/get", { taskId: unknown });
      expect(refused).toMatchObject({ status: 503, headers: { "retry-after": expect.any(String) } });
    } finally {
      await redis.start();
    }
    await eventually(async () => {
      for (const { gateway } of [pair.one, pair.two]) expect(gateway.metrics()).toMatch(/^headgate_peers 1$/mu);
      // The store answers both again: what one cannot tell it before it ends, the other would never know.
      for (const at of ["one", "two"] as const)
        expect((await send(at, "tasks-stdio", "tasks/get", { taskId: "none" })).status).not.toBe(503);
    });
  });
});

describe("when the gateway that held them has gone", () => {
  it("a retry gets a clear error, and a task goes on where its server has it", async () => {
    const retry = await askedBy("one", "single");
    const taskId = await taskOf("one", "tasks-http");
    await pair.one.gateway.close();
    const refused = await send("two", "single", "tools/call", retry);
    expect(refused.json).toMatchObject({ error: { data: { requestState: "foreign" } } });
    await eventually(async () =>
      expect(resultOf(await send("two", "tasks-http", "tasks/get", { taskId }))).toMatchObject({ taskId }),
    );
    const stolen = await send("two", "tasks-http", "tasks/get", { taskId }, "bob");
    expect(stolen.json).toMatchObject({ error: { message: "unknown task" } });
  });
});
