import { GatewayError } from "../../errors.ts";
import type { Exchange, SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { Session } from "../../sessions/session.ts";
import { InFlightCounter } from "../../lib/in-flight.ts";
import type { UpstreamLink } from "../../transports/transport.ts";
import { createLinks, type LinkEventsFor, type Links } from "../upstream/links.ts";
import { createToolHeaders, type ParameterFacts, type ToolHeaders } from "./parameter-headers.ts";
import { createYieldScheduler } from "./yield-scheduler.ts";
import type { UpstreamHealth } from "../upstream/health.ts";
import type { OpenUpstream } from "../upstream/open-upstream.ts";

/** How what is replaced is let go. */
export interface DrainOptions {
  /** What sessions that end by it are told. */
  readonly reason: string;
  /** How long running calls may finish. */
  readonly graceMs: number;
}

/** What a passage needs of the route it is part of. */
export interface UpstreamBindingDeps {
  readonly eventsFor: LinkEventsFor;
  /** Sends a request of ours upstream. */
  readonly ask: (exchange: Exchange) => Promise<Reply>;
  readonly setTimer: SetTimer;
}

/**
 * A route's way to one upstream: its links, what is known of it, the calls that run there. A route whose upstream
 * changes gets a new one; the old one stays for the sessions that began on it, until they have been let go.
 */
export interface UpstreamBinding {
  readonly upstream: OpenUpstream;
  readonly links: Links;
  /** What is known of header parameters; absent where the upstream compares them itself. */
  readonly toolHeaders: ToolHeaders | undefined;
  /** What headers that repeat arguments are compared with, and computed from. */
  readonly parameters: ParameterFacts;
  /** The link for an exchange; a passage that is being left opens no new ones. */
  linkFor(exchange: Exchange, session: Session | undefined): UpstreamLink;
  /** A request goes out on one of its links. One of the other two follows. */
  begin(exchange: Exchange): void;
  answered(exchange: Exchange, reply: Reply): void;
  failed(exchange: Exchange, failure: GatewayError): void;
  /** Says that something uses the upstream beside the links; the answer says that it is done. */
  retain(): () => void;
  /** Lets go: each session ends when its calls are answered, and everything at the latest when the grace is over. */
  drain(farewell: DrainOptions): Promise<void>;
  /** Ends all links, then connections and processes. */
  close(reason: string): Promise<void>;
}

/** Makes a passage; nothing is opened before a message goes out. */
export function createUpstreamBinding(
  upstream: OpenUpstream,
  health: UpstreamHealth,
  deps: UpstreamBindingDeps,
): UpstreamBinding {
  const links = createLinks(upstream.open, upstream.modernSharing, deps.eventsFor);
  const { setTimer } = deps;
  const others = new InFlightCounter();
  const turn = createYieldScheduler(setTimer);
  let isLeft = false;

  const isCounted = (exchange: Exchange): boolean => exchange.session === undefined && !isListening(exchange);

  /** Ends a session when all its calls are answered and the answers written, or when the time is over. */
  async function part(session: Session, reason: string, over: Promise<void>): Promise<void> {
    let isOver = false;
    const timeUp = over.then(() => {
      isOver = true;
    });
    do {
      await Promise.race([session.inFlight.whenIdle(), timeUp]);
      // The answer is known before it is written, and ending a session ends its streams: it takes another turn.
      await turn();
    } while (!isOver && session.inFlight.count > 0);
    session.end(reason, "reload");
  }

  const toolHeaders = createToolHeaders(deps.ask);

  async function close(reason: string): Promise<void> {
    isLeft = true;
    await links.close(reason);
    await upstream.close(reason);
  }

  return {
    upstream,
    links,
    parameters: {
      tools: toolHeaders,
      get upstreamSeesHeaders() {
        return upstream.seesHeaders();
      },
    },
    get toolHeaders() {
      return upstream.seesHeaders() ? undefined : toolHeaders;
    },
    linkFor: (exchange, session) => {
      const known = session === undefined ? undefined : links.of(session);
      if (known !== undefined) return known;
      if (isLeft) throw new GatewayError("shutting_down", "this route has been taken out of service");
      return links.for(exchange, session);
    },
    begin: (exchange) => {
      if (isCounted(exchange)) others.begin();
    },
    answered: (exchange, reply) => {
      if (!isLeft) health.answered(reply.message);
      if (isCounted(exchange)) others.end();
    },
    failed: (exchange, failure) => {
      if (!isLeft) health.failed(failure);
      if (isCounted(exchange)) others.end();
    },
    retain: () => {
      others.begin();
      return () => {
        others.end();
      };
    },
    drain: async ({ reason, graceMs }) => {
      isLeft = true;
      const over = Promise.withResolvers<void>();
      const stop = setTimer(graceMs, over.resolve);
      const sessions = links.sessions.map((session) => part(session, reason, over.promise));
      await Promise.all([...sessions, Promise.race([others.whenIdle(), over.promise])]);
      stop();
      await close(reason);
    },
    close,
  };
}

/** A request that only listens may stay for hours: whoever listens is to listen to the new upstream soon. */
export function isListening({ message }: Exchange): boolean {
  return message.kind === "request" && methodFacts(message.method)?.timeoutClass === "stream";
}
