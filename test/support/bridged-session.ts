import { createLegacyToModernLink, type LegacyToModernDeps } from "../../src/bridge/legacy-to-modern/link.ts";
import type { GatewayError } from "../../src/errors.ts";
import type { Exchange } from "../../src/core/exchange.ts";
import type { Reply } from "../../src/core/pipeline.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { Revision } from "../../src/protocol/revisions.ts";
import type { UpstreamLink } from "../../src/transports/transport.ts";
import { exchangeWith, valueOf } from "./exchange.ts";
import { createFakeTime, type FakeTime, settled } from "./fake-time.ts";
import { messageOf } from "./messages.ts";
import { fakeLink, type FakeLink } from "./modern-link.ts";

/** Something that the client was sent outside the answer to a request. */
export interface ClientEvent {
  readonly message: Message;
  readonly value: Readonly<Record<string, unknown>>;
  readonly related: Exchange | undefined;
}

/** A legacy client on a bridge, with the modern upstream in the hands of the test. */
export interface BridgedSession {
  readonly link: UpstreamLink;
  readonly upstream: FakeLink;
  readonly time: FakeTime;
  readonly events: readonly ClientEvent[];
  readonly troubles: readonly GatewayError[];
  /** Starts a request of the client. */
  readonly begin: (method: string, params?: unknown, facts?: Partial<Exchange>) => Begun;
  readonly notify: (method: string, params?: unknown) => Promise<Reply>;
  /** Answers a question that the client was asked. */
  readonly answer: (question: ClientEvent, body: object) => Promise<void>;
  /** Questions that the client has been asked so far. */
  readonly questions: () => readonly ClientEvent[];
}

/** A request of the client on its way. */
export interface Begun {
  readonly exchange: Exchange;
  readonly reply: Promise<Reply>;
  /** The value of the answer. */
  readonly answer: () => Promise<unknown>;
}

/** What a bridged session starts with. */
export interface SessionStart {
  readonly revision?: Revision;
  readonly capabilities?: unknown;
  readonly server?: unknown;
  readonly options?: Partial<LegacyToModernDeps>;
}

export const fullServer = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  logging: {},
  completions: {},
};

/** Opens the bridge without a handshake. */
export function openBridge(options: Partial<LegacyToModernDeps> = {}): BridgedSession {
  const upstream = fakeLink();
  const time = createFakeTime();
  const events: ClientEvent[] = [];
  const troubles: GatewayError[] = [];
  let ids = 0;
  const link = createLegacyToModernLink({
    open: upstream.open,
    events: {
      message: (message, related) => {
        events.push({ message, value: valueOf(message) as Record<string, unknown>, related });
      },
      malformed: () => {},
      error: (error) => {
        troubles.push(error);
      },
      closed: () => {},
    },
    setTimer: time.setTimer,
    newId: () => `id-${++ids}`,
    validatesHeaders: true,
    ...options,
  });
  let requests = 0;
  return {
    link,
    upstream,
    time,
    events,
    troubles,
    begin: (method, params, facts = {}) => {
      const id = `c${++requests}`;
      const message = messageOf({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });
      const exchange = exchangeWith(message, { id: `x-${id}`, ...facts });
      const reply = link.request(exchange);
      // A test that expects a failure looks at it later.
      reply.catch(() => {});
      return { exchange, reply, answer: async () => valueOf((await reply).message) };
    },
    notify: async (method, params) =>
      link.send(exchangeWith(messageOf({ jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) }))),
    answer: async ({ message }, body) => {
      const id: unknown = JSON.parse(message.id?.json ?? "null");
      await link.send(exchangeWith(messageOf({ jsonrpc: "2.0", id, ...body })));
      await settled();
    },
    questions: () => events.filter(({ message }) => message.kind === "request"),
  };
}

/** Opens the bridge and shakes hands. */
export async function openSession(start: SessionStart = {}): Promise<BridgedSession> {
  const session = openBridge(start.options);
  const handshake = session.begin("initialize", {
    protocolVersion: start.revision ?? "2025-11-25",
    capabilities: start.capabilities ?? {
      sampling: {},
      elicitation: { form: {}, url: {} },
      roots: { listChanged: true },
    },
    clientInfo: { name: "kite", version: "0.3.0" },
  });
  session.upstream.take("server/discover").reply({
    resultType: "complete",
    supportedVersions: ["2026-07-28"],
    capabilities: start.server ?? fullServer,
    ttlMs: 0,
    cacheScope: "private",
  });
  await handshake.reply;
  await session.notify("notifications/initialized");
  return session;
}

/** Answers the bridge's own reading of the tool list, which comes before the first call of a tool. */
export async function giveTools(session: BridgedSession, tools: readonly unknown[] = []): Promise<void> {
  await settled();
  session.upstream.take("tools/list").reply({ resultType: "complete", tools, ttlMs: 0, cacheScope: "public" });
  await settled();
}
