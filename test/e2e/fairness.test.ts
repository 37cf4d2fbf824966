import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { type FakeUpstream, fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { type RunningFixture, startFixture, stdioFixture } from "../support/fixture.ts";
import { toolCall } from "../support/legacy-session.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest } from "../support/modern-request.ts";
import { postHeaders } from "../support/raw-http.ts";
import { eventually } from "../support/eventually.ts";

type Caller = "ann" | "bob";

const keys = { ann: formatApiKey(new Uint8Array(32).fill(1)), bob: formatApiKey(new Uint8Array(32).fill(2)) };
const hashes = Object.fromEntries(Object.entries(keys).map(([name, key]) => [name, { hash: hashApiKey(key) }]));
const addresses = { ann: "2001:db8:1:2::", bob: "192.0.2.7" };
let requests = 0;

/** The two ways to tell callers apart. */
const identities = {
  "with credentials": {
    config: { auth: { authenticators: { team: { apiKeys: { keys: hashes } } } } },
    headersOf: (who: Caller) => ({ authorization: `Bearer ${keys[who]}` }),
  },
  // Each request of the one comes from another address of its network.
  "without credentials": {
    config: { listen: { trustedProxies: ["127.0.0.1"] } } satisfies ConfigInput,
    headersOf: (who: Caller) => ({
      "x-forwarded-for": addresses[who] + (who === "ann" ? (++requests).toString(16) : ""),
    }),
  },
};

type Identity = keyof typeof identities;

async function gatewayFor(identity: Identity, input: ConfigInput) {
  const { config, headersOf } = identities[identity];
  const gateway = await openGateway({ ...config, ...input });
  const stop = new AbortController();
  /** Answers of the one caller so far. They are held, because a stream that nobody holds is closed with the garbage. */
  const answers: Response[] = [];
  const send = async (who: Caller, path: string, init: RequestInit): Promise<Response> => {
    const headers = { ...(init.headers as Record<string, string>), ...headersOf(who) };
    const response = await fetch(gateway.origin + path, { ...init, signal: stop.signal, headers });
    if (who === "ann") answers.push(response);
    return response;
  };
  const modern = (who: Caller, method: string, capabilities: unknown = {}, params = {}): Promise<Response> => {
    const { headers, body } = modernRequest(1, method, params);
    const text = JSON.stringify(body).replace(
      '"io.modelcontextprotocol/clientCapabilities":{}',
      `"io.modelcontextprotocol/clientCapabilities":${JSON.stringify(capabilities)}`,
    );
    return send(who, "/mcp", { method: "POST", headers, body: text });
  };
  const legacy = (who: Caller, message: unknown, session?: string): Promise<Response> =>
    send(who, "/mcp", {
      method: "POST",
      headers: { ...postHeaders, ...(session === undefined ? {} : { "mcp-session-id": session }) },
      body: JSON.stringify(message),
    });
  return {
    gateway,
    send,
    modern,
    legacy,
    initialize: (who: Caller) => legacy(who, hello),
    refused: () => answers.filter(({ status }) => status === 429 || status === 503).length,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await gateway[Symbol.asyncDispose]();
    },
  };
}

const hello = {
  jsonrpc: "2.0",
  id: "hello",
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: { elicitation: {} },
    clientInfo: { name: "by-hand", version: "1.0.0" },
  },
};

type At = Awaited<ReturnType<typeof gatewayFor>>;

const madeUp = (index: number): unknown => ({ experimental: { [`made-up-${index}`]: {} } });
const hold = (key: string) => ({ name: "test_hold", arguments: { key } });
/** A call that is not answered, with arguments of 100 kB. */
const heavy = (index: number) => ({ name: "test_hold", arguments: { key: `heavy ${index}`, filler } });
const filler = "x".repeat(100_000);
const question = { name: "test_elicitation", arguments: { message: "Sure?" } };
const inProcess = { server: () => createEverythingServer() };
const childOf = (era: "legacy" | "modern") => {
  const [command, ...args] = stdioFixture({ era });
  return { command, args, maxChildren: 2 };
};

/** Sends many requests whose answers may never come; resolves when so many of them have been refused. */
async function flood(at: At, count: number, allowed: number, send: (index: number) => Promise<unknown>): Promise<void> {
  for (let index = 0; index < count; index++) send(index).catch(() => {});
  await eventually(() => expect(at.refused()).toBeGreaterThanOrEqual(count - allowed));
}

let legacyServer: RunningFixture;
/** Answers with 9 MB, more than the system holds for a connection. */
let largeServer: FakeUpstream;

beforeAll(async () => {
  legacyServer = await startFixture({ era: "legacy" });
  const content = [{ type: "text", text: "x".repeat(9_000_000) }];
  largeServer = await fakeUpstream((call) => {
    call.reply({ jsonrpc: "2.0", id: 1, result: { resultType: "complete", content } });
  });
});

afterAll(async () => {
  await legacyServer[Symbol.asyncDispose]();
  await largeServer[Symbol.asyncDispose]();
});

interface Resource {
  readonly config: () => ConfigInput;
  /** Takes ten times as much as the one caller may have. */
  readonly exhaust: (at: At) => Promise<void>;
  /** What the other caller still gets. */
  readonly use: (at: At) => Promise<Response>;
}

const list = (at: At): Promise<Response> => at.modern("bob", "tools/list");

/** Everything that callers share, with the least that a gateway can have of it. */
const resources: Readonly<Record<string, Resource>> = {
  "requests at once": {
    config: () => ({ upstream: inProcess, limits: { requests: 20 } }),
    exhaust: (at) => flood(at, 100, 10, (index) => at.modern("ann", "tools/call", {}, hold(`request ${index}`))),
    use: list,
  },
  "bodies that are being received": {
    config: () => ({ upstream: inProcess, limits: { requests: 20 } }),
    exhaust: (at) =>
      flood(at, 100, 10, () => {
        const body = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([0x7b])) });
        return at.send("ann", "/mcp", { method: "POST", headers: postHeaders, body, duplex: "half" });
      }),
    use: list,
  },
  "bytes of bodies that are being received": {
    config: () => ({ upstream: inProcess, limits: { bytes: 1_000_000 } }),
    exhaust: (at) =>
      flood(at, 50, 5, () => {
        const part = new Uint8Array(100_000).fill(0x20);
        const body = new ReadableStream({ start: (controller) => controller.enqueue(part) });
        return at.send("ann", "/mcp", { method: "POST", headers: postHeaders, body, duplex: "half" });
      }),
    use: (at) => at.modern("bob", "tools/call", {}, { name: "test_simple_text", arguments: { filler } }),
  },
  "bytes of requests without an answer": {
    config: () => ({ upstream: inProcess, limits: { bytes: 1_000_000 } }),
    exhaust: (at) => flood(at, 50, 5, (index) => at.modern("ann", "tools/call", {}, heavy(index))),
    use: (at) => at.modern("bob", "tools/call", {}, { name: "test_simple_text", arguments: { filler } }),
  },
  "bytes of messages by HTTP+SSE": {
    config: () => ({ upstream: inProcess, limits: { bytes: 1_000_000 } }),
    exhaust: async (at) => {
      const stream = await at.send("ann", "/sse", { headers: { accept: "text/event-stream" } });
      const events = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
      let told = "";
      while (!told.includes("\n\n")) told += (await events?.read())?.value ?? "";
      const path = /data: (?<path>\S+)/u.exec(told)?.groups?.["path"] ?? "";
      const post = (message: unknown) =>
        at.send("ann", path, { method: "POST", headers: postHeaders, body: JSON.stringify(message) });
      await post(hello);
      await flood(at, 50, 5, (index) => post(toolCall(index, "test_hold", heavy(index))));
    },
    use: (at) => at.modern("bob", "tools/call", {}, { name: "test_simple_text", arguments: { filler } }),
  },
  "bytes of answers that are not read": {
    config: () => ({ upstream: { url: largeServer.url, era: "modern" }, limits: { bytes: 80_000_000 } }),
    exhaust: async (at) => {
      // Those that fit are never read. Errors are, because they are small.
      for (let index = 0; index < 20; index++)
        await at.modern("ann", "tools/call", {}, { name: "large", arguments: {} });
      await eventually(() => expect(at.refused()).toBeGreaterThanOrEqual(16));
    },
    use: async (at) => {
      const response = await at.modern("bob", "tools/call", {}, { name: "large", arguments: {} });
      expect((await response.text()).length).toBeGreaterThanOrEqual(9_000_000);
      return response;
    },
  },
  "open requests of a route": {
    config: () => ({ upstream: inProcess, limits: { pending: 40 } }),
    exhaust: (at) => flood(at, 100, 10, (index) => at.modern("ann", "tools/call", {}, hold(`open ${index}`))),
    use: list,
  },
  "questions that nobody answers": {
    config: () => ({ upstream: inProcess, limits: { pending: 40 } }),
    exhaust: async (at) => {
      const session = (await at.initialize("ann")).headers.get("mcp-session-id") ?? "";
      await flood(at, 100, 10, (index) => at.legacy("ann", toolCall(index, "test_elicitation", question), session));
    },
    use: list,
  },
  subscriptions: {
    config: () => ({ upstream: inProcess, limits: { pending: 40 } }),
    exhaust: (at) =>
      flood(at, 100, 10, () =>
        at.modern("ann", "subscriptions/listen", {}, { notifications: { toolsListChanged: true } }),
      ),
    use: (at) => at.modern("bob", "subscriptions/listen", {}, { notifications: { toolsListChanged: true } }),
  },
  "calls that wait for their client": {
    config: () => ({ upstream: { url: legacyServer.url }, limits: { suspendedCalls: 20 } }),
    exhaust: async (at) => {
      for (let call = 0; call < 20; call++)
        await at.modern("ann", "tools/call", { elicitation: { form: {} } }, question);
    },
    use: async (at) => {
      const response = await at.modern("bob", "tools/call", { elicitation: { form: {} } }, question);
      expect(await response.clone().text()).toContain("input_required");
      return response;
    },
  },
  sessions: {
    config: () => ({ upstream: inProcess, limits: { sessions: 20 } }),
    exhaust: async (at) => {
      await Promise.all(Array.from({ length: 50 }, () => at.initialize("ann")));
    },
    use: (at) => at.initialize("bob"),
  },
  "HTTP+SSE connections, before their handshake too": {
    config: () => ({ upstream: inProcess, limits: { sessions: 20 } }),
    exhaust: (at) => flood(at, 50, 4, () => at.send("ann", "/sse", { headers: { accept: "text/event-stream" } })),
    use: (at) => at.send("bob", "/sse", { headers: { accept: "text/event-stream" } }),
  },
  "processes, by made-up capabilities": {
    config: () => ({ upstream: childOf("modern") }),
    exhaust: async (at) => {
      for (let index = 0; index < 10; index++) await at.modern("ann", "tools/list", madeUp(index));
    },
    use: list,
  },
  "processes, by sessions": {
    config: () => ({ upstream: childOf("legacy") }),
    exhaust: async (at) => {
      for (let index = 0; index < 10; index++) await at.initialize("ann");
    },
    use: (at) => at.initialize("bob"),
  },
  "processes, by sessions that are in use": {
    config: () => ({ upstream: childOf("legacy") }),
    exhaust: async (at) => {
      const session = (await at.initialize("ann")).headers.get("mcp-session-id") ?? "";
      at.legacy("ann", toolCall(1, "test_hold", hold("session")), session).catch(() => {});
      await flood(at, 9, 0, () => at.initialize("ann"));
    },
    use: (at) => at.initialize("bob"),
  },
};

describe.each(Object.keys(identities) as Identity[])("one caller %s at ten times its limits", (identity) => {
  it.each(Object.entries(resources))("leaves to others: %s", async (_name, { config, exhaust, use }) => {
    await using at = await gatewayFor(identity, config());
    await exhaust(at);
    for (let call = 0; call < 2; call++) expect((await use(at)).status).toBe(200);
  });
});

describe("one caller at ten times its limits", () => {
  it("does not keep a server in this process for each set of capabilities", async () => {
    let open = 0;
    const server = () => {
      const made = createEverythingServer();
      const close = made.close.bind(made);
      open++;
      made.close = async () => {
        open--;
        await close();
      };
      return made;
    };
    await using at = await gatewayFor("with credentials", { upstream: { server } });
    for (let index = 0; index < 160; index++)
      expect((await at.modern("ann", "tools/list", madeUp(index))).status).toBe(200);
    expect((await at.modern("bob", "tools/list")).status).toBe(200);
    await eventually(() => expect(open).toBeLessThanOrEqual(17));
  });

  it("does not keep others waiting at an upstream with few connections", async () => {
    const order: string[] = [];
    const running: UpstreamCall[] = [];
    await using upstream = await fakeUpstream((call) => {
      running.push(call);
      order.push(String(Reflect.get(Object(sentMessage(call).params), "name")));
    });
    await using at = await gatewayFor("with credentials", {
      upstream: { url: upstream.url, era: "modern", connections: 1 },
    });
    const call = (who: Caller) => at.modern(who, "tools/call", {}, { name: who, arguments: {} });
    const anns = Array.from({ length: 100 }, () => call("ann"));
    await eventually(() => expect(running).toHaveLength(1));
    const bobs = call("bob");
    for (let served = 0; served < 101; served++) {
      await eventually(() => expect(running).toHaveLength(1));
      const next = running.shift();
      next?.reply({ jsonrpc: "2.0", id: 1, result: { resultType: "complete", content: [] } });
    }
    for (const answer of await Promise.all([...anns, bobs])) expect(answer.status).toBe(200);
    // In the order of arrival it would be the last.
    expect(order.indexOf("bob")).toBeLessThan(90);
  });
});
