import { createModernToLegacyLink, type ModernToLegacyLimits } from "../../src/bridge/modern-to-legacy/link.ts";
import type { ByteBudget } from "../../src/core/byte-budget.ts";
import {
  createSuspendedCalls,
  type SuspendedCalls,
  type SuspensionLimits,
} from "../../src/bridge/modern-to-legacy/suspended-calls.ts";
import { GatewayError } from "../../src/errors.ts";
import { createSeals } from "../../src/lib/keys/sealing.ts";
import { Cancellation } from "../../src/core/cancellation.ts";
import { type Exchange, type Principal } from "../../src/core/exchange.ts";
import { noReply, type Reply } from "../../src/core/pipeline.ts";
import type { Message } from "../../src/protocol/message.ts";
import { errorMessage, resultMessage } from "../../src/core/reply.ts";
import type { LinkEvents, UpstreamLink } from "../../src/transports/transport.ts";
import { exchangeWith, messageFrom, valueOf } from "./exchange.ts";
import { createFakeTime, type FakeTime } from "./fake-time.ts";

/** A message as a test compares it. */
export type Wire = Readonly<Record<string, unknown>>;

/** One session at a legacy server that a test plays. */
export interface PlayedSession {
  readonly number: number;
  readonly events: LinkEvents;
  /** Everything that came, in order. */
  readonly received: Wire[];
  /** The exchanges of requests that are not answered yet, by method. */
  readonly open: Map<string, Exchange>;
  isClosed: boolean;
  /** What the server calls the session; another one when it has forgotten the first. */
  upstreamId: string;
  /** Answers the open request of that method. */
  answer(method: string, result: Wire): void;
  fail(method: string, error: Wire): void;
  /** Sends something on the stream of an open request, or outside any. */
  say(message: Wire, method?: string): void;
}

/** What a test's server does by itself. */
export interface PlayedServer {
  readonly capabilities?: Wire;
  readonly revision?: string;
  /** Whether each request has a stream of its own, as over Streamable HTTP. */
  readonly tellsApart?: boolean;
  /** Never answers the handshake. */
  readonly isSilent?: boolean;
  /** Resolves when its stream for messages outside any request is open. */
  readonly listening?: Promise<void>;
}

/** A client's request through the bridge. */
export interface Asked {
  readonly exchange: Exchange;
  readonly reply: Promise<Reply>;
  /** What was written to its stream before the answer. */
  readonly streamed: unknown[];
  /** The answer as a value. */
  readonly value: Promise<Wire>;
}

/** A bridge between a client and a server that the test plays, with the way between them that a route would be. */
export interface Bridge {
  readonly link: UpstreamLink;
  readonly suspendedCalls: SuspendedCalls;
  readonly time: FakeTime;
  readonly sessions: PlayedSession[];
  /** Requests that passed on their way to the client: what a policy would have seen. */
  readonly inputRequests: Wire[];
  readonly troubles: GatewayError[];
  ask(method: string, params?: Wire, facts?: AskFacts): Asked;
}

export interface AskFacts {
  readonly id?: string | number;
  readonly principal?: Principal;
  readonly capabilities?: Wire;
  readonly meta?: Wire;
  readonly route?: string;
}

/** Makes one. */
export function createBridge(
  server: PlayedServer = {},
  limits: {
    readonly suspension?: Partial<SuspensionLimits>;
    readonly link?: Partial<ModernToLegacyLimits>;
  } = {},
  suspendedCallsOf: (time: FakeTime) => SuspendedCalls = (time) => createTestSuspendedCalls(time, limits.suspension),
): Bridge {
  const time = createFakeTime();
  const suspendedCalls = suspendedCallsOf(time);
  const sessions: PlayedSession[] = [];
  const inputRequests: Wire[] = [];
  const troubles: GatewayError[] = [];
  let ids = 0;
  let requests = 0;

  const events: LinkEvents = {
    message: (message, related, transport) => {
      if (message.kind === "notification") return related?.reply?.write(message);
      if (message.kind !== "request") return undefined;
      inputRequests.push(valueOf(message) as Wire);
      const asked = exchangeWith(message, {
        id: `question-${ids++}`,
        direction: "server-to-client",
        parent: related,
        transport,
      });
      void answerInputRequest(asked, message);
      return undefined;
    },
    malformed: () => {},
    error: (error) => {
      troubles.push(error);
    },
    closed: () => {},
  };

  async function answerInputRequest(asked: Exchange, message: Message & { kind: "request" }): Promise<void> {
    let answer: Message | undefined;
    try {
      answer = (await suspendedCalls.requestInput(asked))?.message;
    } catch (error) {
      const failure = GatewayError.from(error);
      answer = errorMessage(message.id, { code: failure.facts.jsonrpc ?? -32603, message: failure.message });
    }
    if (answer !== undefined) await link.send({ ...asked, direction: "client-to-server", message: answer });
  }

  const link = createModernToLegacyLink({
    openLegacy: (legacyEvents) => {
      const played = playSession(sessions.length, server, legacyEvents);
      sessions.push(played.session);
      return played.link;
    },
    events,
    suspendedCalls,
    setTimer: time.setTimer,
    newId: () => `id-${ids++}`,
    gatewayRequestMs: 30_000,
    limits: {
      sessions: 4,
      waiting: 8,
      idleMs: 60_000,
      subscriptions: 8,
      undelivered: 8,
      urlRounds: 8,
      ...limits.link,
    },
  });

  return {
    link,
    suspendedCalls,
    time,
    sessions,
    inputRequests,
    troubles,
    ask: (method, params = {}, facts = {}) => {
      const streamed: unknown[] = [];
      const { id = ++requests, principal, capabilities = {}, meta = {}, route = "test" } = facts;
      const message = messageFrom(
        JSON.stringify({
          jsonrpc: "2.0",
          id,
          method,
          params: {
            ...params,
            _meta: {
              "io.modelcontextprotocol/protocolVersion": "2026-07-28",
              "io.modelcontextprotocol/clientCapabilities": capabilities,
              "io.modelcontextprotocol/clientInfo": { name: "tester", version: "1" },
              ...meta,
            },
          },
        }),
      );
      const exchange = exchangeWith(message, {
        id: `exchange-${ids++}`,
        revision: "2026-07-28",
        era: "modern",
        route,
        ...(principal === undefined ? {} : { principal }),
        cancellation: new Cancellation(),
        reply: {
          open: () => {},
          write: (out) => {
            streamed.push(valueOf(out));
          },
        },
      });
      const reply = link.request(exchange);
      const value = reply.then((answer) => valueOf(answer.message) as Wire);
      // A test that wants the failure awaits the reply itself.
      reply.catch(() => {});
      value.catch(() => {});
      return { exchange, reply, streamed, value };
    },
  };
}

/** Suspended calls with a known secret. */
export function createTestSuspendedCalls(
  time: FakeTime,
  limits: Partial<SuspensionLimits> = {},
  instance = "one",
  bytes?: ByteBudget,
): SuspendedCalls {
  let ids = 0;
  return createSuspendedCalls({
    clock: time.clock,
    setTimer: time.setTimer,
    newId: () => `suspended-${ids++}`,
    instance,
    ...(bytes === undefined ? {} : { bytes }),
    seal: createSeals([Buffer.alloc(32, 7)]).requestState,
    limits: {
      suspended: 10,
      suspendedPerPrincipal: 10,
      suspendedMs: 600_000,
      gatherMs: 5,
      inputRequests: 8,
      bufferedNotifications: 3,
      bufferedBytes: 1024,
      ...limits,
    },
  });
}

function playSession(
  number: number,
  {
    capabilities = { tools: {} },
    revision = "2025-11-25",
    tellsApart = true,
    isSilent = false,
    listening,
  }: PlayedServer,
  events: LinkEvents,
): { readonly session: PlayedSession; readonly link: UpstreamLink } {
  const settlers = new Map<string, (message: Message) => void>();
  const session: PlayedSession = {
    number,
    events,
    received: [],
    open: new Map(),
    isClosed: false,
    upstreamId: "first",
    answer: (method, result) => {
      const exchange = take(method);
      if (exchange.message.id === undefined) return;
      settlers.get(exchange.id)?.(resultMessage(exchange.message.id, JSON.stringify(result)));
    },
    fail: (method, error) => {
      const exchange = take(method);
      const id = exchange.message.id?.json ?? "0";
      settlers.get(exchange.id)?.(messageFrom(`{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`));
    },
    say: (message, method) => {
      const related = method === undefined ? undefined : session.open.get(method);
      const text = JSON.stringify({ jsonrpc: "2.0", ...message });
      void events.message(messageFrom(text), related, { type: "in-process" });
    },
  };

  function take(method: string): Exchange {
    const exchange = session.open.get(method);
    if (exchange === undefined) throw new Error(`no open ${method} in session ${number}`);
    session.open.delete(method);
    return exchange;
  }

  const link: UpstreamLink = {
    incarnation: `session-${number}`,
    get upstreamSession() {
      return session.upstreamId;
    },
    get hasBackpressure() {
      return tellsApart;
    },
    request: async (exchange) => {
      const { message, cancellation } = exchange;
      session.received.push(valueOf(message) as Wire);
      if (message.id === undefined) throw new Error("a request without an id");
      if (message.method === "initialize" && !isSilent) {
        const result = { protocolVersion: revision, capabilities, serverInfo: { name: "old", version: "2" } };
        return { message: resultMessage(message.id, JSON.stringify(result)) };
      }
      if (ownMethods.has(message.method ?? "")) return { message: resultMessage(message.id, "{}") };
      return new Promise<Reply>((resolve, reject) => {
        session.open.set(message.method ?? "", exchange);
        settlers.set(exchange.id, (answer) => {
          resolve({ message: answer, status: 200 });
        });
        cancellation.onCancel((reason) => {
          session.received.push({ cancelled: message.method, reason });
          reject(new GatewayError("cancelled", reason));
        });
      });
    },
    send: async ({ message }) => {
      session.received.push(valueOf(message) as Wire);
      return noReply;
    },
    listen: () => {
      session.received.push({ listen: true });
      return listening;
    },
    close: async () => {
      session.isClosed = true;
    },
  };
  return { session, link };
}

const ownMethods = new Set(["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]);
