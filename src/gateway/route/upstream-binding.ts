import type { Exchange, SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { InFlightCounter } from "../../lib/token-bucket.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { Session } from "../../sessions/session.ts";
import type { UpstreamLink } from "../../transports/transport.ts";
import type { UpstreamHealth } from "../upstream/http-upstream.ts";
import { createLinks, type LinkEventsFor, type Links } from "../upstream/links.ts";
import type { OpenUpstream } from "../upstream/open-upstream.ts";
import type { RestorableSession, RestoredLinkDeps } from "../upstream/restored-link.ts";
import { createToolHeaders, type ParameterFacts, type ToolHeaders } from "./parameter-headers.ts";

/** How an upstream is drained. */
export interface DrainOptions {
  /** The reason given to sessions that it ends. */
  readonly reason: string;
  /** How long running calls may finish. */
  readonly graceMs: number;
}

export interface UpstreamBindingDeps extends Omit<RestoredLinkDeps, "address"> {
  readonly eventsFor: LinkEventsFor;
  /** Sends a request of the gateway upstream. */
  readonly ask: (exchange: Exchange) => Promise<Reply>;
  /** How long the upstream may take to answer it. */
  readonly quickMs: () => number;
}

/**
 * A route's connection to one upstream: its links, its health and the calls that run there. A route whose upstream
 * changes gets a new binding; the old one stays until the sessions that started on it have been drained.
 */
export interface UpstreamBinding {
  readonly upstream: OpenUpstream;
  readonly links: Links;
  /** What is known about header parameters; absent if the upstream compares them itself. */
  readonly toolHeaders: ToolHeaders | undefined;
  /** The source for headers that repeat tool arguments. */
  readonly parameters: ParameterFacts;
  /** The link for an exchange. A draining binding opens no new ones. */
  linkFor(exchange: Exchange, session: Session | undefined): UpstreamLink;
  /** Opens the link of a session that began in another process. */
  restore(restorable: RestorableSession): void;
  /** A request is sent over one of the links; `answered` or `failed` follows. */
  begin(exchange: Exchange): void;
  answered(exchange: Exchange, reply: Reply): void;
  failed(exchange: Exchange, failure: GatewayError): void;
  /** Keeps the upstream open for other uses than the links, until the returned function is called. */
  retain(): () => void;
  /** Ends each session once its calls are answered, and everything when the grace period is over. */
  drain(options: DrainOptions): Promise<void>;
  /** Ends all links, then connections and processes. */
  close(reason: string): Promise<void>;
}

/** Creates a binding; nothing is opened before the first message. */
export function createUpstreamBinding(
  upstream: OpenUpstream,
  health: UpstreamHealth,
  deps: UpstreamBindingDeps,
): UpstreamBinding {
  const { clock, setTimer, newId, onBegunAnew, quickMs } = deps;
  const links = createLinks(upstream.open, upstream.modernSharing, deps.eventsFor, {
    limits: upstream.linkLimits,
    clock,
    setTimer,
    newId,
    address: upstream.address,
    onBegunAnew,
  });
  const sessionless = new InFlightCounter();
  const yieldTurn = createYieldScheduler(setTimer);
  let isDraining = false;

  const isCounted = (exchange: Exchange): boolean => exchange.session === undefined && !isListening(exchange);

  /** Ends a session when its calls are answered and the answers written, or when the time is over. */
  async function drainSession(session: Session, reason: string, over: Promise<void>): Promise<void> {
    let isOver = false;
    const timeUp = over.then(() => {
      isOver = true;
    });
    do {
      await Promise.race([session.inFlight.whenIdle(), timeUp]);
      // An answer is written one turn after it is known, and ending the session would end its stream.
      await yieldTurn();
    } while (!isOver && session.inFlight.count > 0);
    session.end(reason, "reload");
  }

  const toolHeaders = createToolHeaders(
    deps.ask,
    { setTimer, quickMs },
    (principal, tool) => upstream.federation?.entryTarget(principal, "tool", tool)?.definition,
  );

  async function close(reason: string): Promise<void> {
    isDraining = true;
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
      get sendsHeaders() {
        return (upstream.sendsHeaders ?? upstream.seesHeaders)();
      },
    },
    get toolHeaders() {
      return upstream.seesHeaders() ? undefined : toolHeaders;
    },
    linkFor: (exchange, session) => {
      const known = session === undefined ? undefined : links.of(session);
      if (known !== undefined) return known;
      if (isDraining) throw new GatewayError("shutting_down", "this route has been removed");
      return links.for(exchange, session);
    },
    restore: (restorable) => {
      links.restore(restorable);
    },
    begin: (exchange) => {
      if (isCounted(exchange)) sessionless.begin();
    },
    answered: (exchange, reply) => {
      if (!isDraining) health.answered(reply.message);
      if (isCounted(exchange)) sessionless.end();
    },
    failed: (exchange, failure) => {
      if (!isDraining) health.failed(failure);
      if (isCounted(exchange)) sessionless.end();
    },
    retain: () => {
      sessionless.begin();
      return () => {
        sessionless.end();
      };
    },
    drain: async ({ reason, graceMs }) => {
      isDraining = true;
      const over = Promise.withResolvers<void>();
      const stop = setTimer(graceMs, over.resolve);
      const sessions = links.sessions.map((session) => drainSession(session, reason, over.promise));
      await Promise.all([...sessions, Promise.race([sessionless.whenIdle(), over.promise])]);
      stop();
      await close(reason);
    },
    close,
  };
}

/** Whether a request only opens a stream (`subscriptions/listen`): it may stay open for hours and does no work. */
export function isListening({ message }: Exchange): boolean {
  return message.kind === "request" && methodFacts(message.method)?.timeoutClass === "stream";
}

/** How many callers pass per turn, few enough to cause no noticeable delay. */
const perTurn = 20;
const turnMs = 5;

/**
 * Creates a function that resolves for a few callers per turn of the event loop, in order. Work for a thousand sessions at
 * once would hold up all other streams. Needed by bench load: "longest wait of a call in a reload, 1,000 sessions".
 */
export function createYieldScheduler(setTimer: SetTimer): () => Promise<void> {
  let waiting: (() => void)[] = [];
  let isTurning = false;

  function turn(): void {
    const next = waiting.slice(0, perTurn);
    waiting = waiting.slice(perTurn);
    isTurning = waiting.length > 0;
    if (isTurning) setTimer(turnMs, turn);
    for (const pass of next) pass();
  }

  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      if (isTurning) return;
      isTurning = true;
      setTimer(0, turn);
    });
}
