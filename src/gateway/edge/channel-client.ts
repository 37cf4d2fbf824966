import { GatewayError } from "../../errors.ts";
import { createExchange, timingOf } from "../../core/exchange.ts";
import { type Exchange, type Principal, type ReplyStream, type TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { combineAnswers, type Message, messageBytes, type ParseOutcome } from "../../protocol/message.ts";
import { classifyPost } from "../../protocol/http/era.ts";
import { memberString } from "../../protocol/json/read.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { checkModernPost } from "../../protocol/http/modern-post.ts";
import { mirroredHeadersOf } from "../../protocol/http/mirrored-headers.ts";
import { parse } from "../../protocol/parse.ts";
import { parseFailureResponse } from "../../protocol/error-response.ts";
import { parseRevision, type Revision, revisions, revisionWithoutHeader } from "../../protocol/revisions.ts";
import { errorReply, refusalReply } from "../../core/reply.ts";
import type { Session } from "../../sessions/session.ts";
import type { Channel, ChannelEvents } from "../../transports/transport.ts";
import type { GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";

/** Where a client that is a channel of its own comes from. */
export interface ChannelClient {
  readonly route: Route;
  /** Asked with every message: newer credentials may have been shown. */
  readonly principal: Principal;
  /** HTTP+SSE clients are legacy; on stdio the first message tells. */
  readonly eras: "legacy" | "both";
  readonly context: TransportContext;
  /** Whether a client that has ended its input may still read: then running requests are finished first. */
  readonly mayStillRead: boolean;
  /** Called when the client has gone and everything it started has been ended. */
  readonly onGone?: () => void;
}

/** Serves a client that sends and takes messages over one channel: stdio, or an HTTP+SSE connection. */
export function serveChannel(gateway: GatewayContext, channel: Channel, client: ChannelClient): ChannelEvents {
  const { clock, registry, limits, newExchangeId, log } = gateway;
  const { route } = client;
  const running = new Map<string, Exchange>();
  let session: Session | undefined;
  /** Messages go on in the order they came, up to where each is sent upstream. */
  const write = (bytes: Buffer): void | Promise<void> => channel.send(bytes);
  const stream: ReplyStream = { open: () => {}, write: (message) => write(messageBytes(message)) };

  let isInputOver = false;

  /** The end of a client's input, once all that it asked for is answered. */
  function leaveWhenDone(): void {
    if (!isInputOver || (client.mayStillRead && running.size > 0)) return;
    isInputOver = false;
    running.clear();
    // What was answered last is written first.
    setImmediate(() => {
      session?.end("the client has gone");
      client.onGone?.();
    });
  }

  function send(message: Message | undefined): void {
    if (message === undefined) return;
    Promise.resolve(write(messageBytes(message))).catch((error: unknown) => {
      log.debug({ route: route.name, reason: GatewayError.from(error).message }, "the client could not be answered");
    });
  }

  function received(bytes: Buffer): void {
    const revision = session?.revision ?? revisionWithoutHeader;
    const outcome = parse(bytes, { revision, mode: "enforce", limits: limits.parse });
    if (!outcome.ok) {
      const refusal = parseFailureResponse(outcome.failure);
      gateway.countRefusal(route, refusal.error);
      send(refusalReply(refusal).message);
      return;
    }
    session?.touch(clock.now());
    if (outcome.form === "batch") void batch(outcome);
    else void single(outcome.message, outcome).then(send);
  }

  /** Legacy, 2025-03-26 only: the parser has refused batches of all other revisions. */
  async function batch(outcome: ParseOutcome & { ok: true; form: "batch" }): Promise<void> {
    const answers = await Promise.all(
      outcome.members.map(async (member) =>
        member.ok
          ? single(member.message, { ok: true, form: "single", message: member.message })
          : refusalReply(parseFailureResponse(member.failure)).message,
      ),
    );
    const body = combineAnswers(
      answers.flatMap((answer) => (answer === undefined ? [] : [messageBytes(answer)])),
      true,
    );
    if (body !== undefined) await write(body);
  }

  /** Takes one message on its way; the answer, if any, is to be sent back. */
  async function single(message: Message, outcome: ParseOutcome): Promise<Message | undefined> {
    if (message.kind === "result" || message.kind === "error") {
      if (session?.deliverResponse(message) !== true)
        log.debug({ route: route.name }, "the client answered what nobody asked");
      return undefined;
    }
    // A channel has no headers: the ones that would repeat the body are taken from it.
    const header = headersOf(message);
    const verdict = classifyPost(outcome, header, { ...route.serving, eras: erasOf() });
    if (!verdict.ok) return refused(verdict.response);
    if (verdict.era === "none") return undefined;
    if (verdict.era === "modern") {
      const checked = checkModernPost({ message, header }, { supported: route.supported, isServed: () => true });
      return checked.ok ? run(message, checked.revision, undefined) : refused(checked.response);
    }
    return message.method === "initialize" && message.kind === "request" ? initialize(message) : legacy(message);
  }

  function erasOf(): "both" | "legacy" | "modern" {
    if (client.eras === "legacy" || session !== undefined) return "legacy";
    return route.serving.eras;
  }

  async function initialize(message: Message & { kind: "request" }): Promise<Message | undefined> {
    if (session !== undefined) session.end("the client shook hands again");
    let own: Session;
    try {
      own = registry.open(route.name, client.principal);
    } catch (error) {
      const exchange = exchangeFor(message, revisionWithoutHeader, undefined);
      return errorReply(exchange, gateway.reportFailure(route, exchange, GatewayError.from(error))).message;
    }
    session = own;
    // The open channel is a stream to the client: such a session is not idle as long as it is there.
    own.running++;
    route.registerSession(own);
    route.setClientSender(own, (out) => write(messageBytes(out)));
    const wished = memberString(message, "params.protocolVersion");
    const reading = wished === undefined ? undefined : parseRevision(wished);
    own.revision =
      reading?.ok === true && revisions[reading.revision].era === "legacy" ? reading.revision : revisionWithoutHeader;
    own.onEnd((reason) => {
      // Answers that the end itself has brought about go out first.
      setImmediate(() => {
        if (session === own) void channel.close(reason);
      });
    });
    const answer = await run(message, own.revision, own);
    const agreed = answer?.kind === "result" ? memberString(answer, "result.protocolVersion") : undefined;
    const named = agreed === undefined ? undefined : parseRevision(agreed);
    if (named?.ok === true) own.revision = named.revision;
    if (answer?.kind === "result") own.state = "active";
    return answer;
  }

  async function legacy(message: Message & { method: string }): Promise<Message | undefined> {
    if (session === undefined) {
      const error = new GatewayError(
        "session_missing",
        "the connection begins with initialize, or with a request of 2026-07-28",
      );
      gateway.countRefusal(route, error.code);
      const exchange = exchangeFor(message, revisionWithoutHeader, undefined);
      return errorReply(exchange, error).message;
    }
    return run(message, session.revision ?? revisionWithoutHeader, session);
  }

  async function run(message: Message, revision: Revision, own: Session | undefined): Promise<Message | undefined> {
    const exchange = exchangeFor(message, revision, own);
    const cancels = own === undefined && message.method === "notifications/cancelled";
    if (message.kind === "request") running.set(message.id.key, exchange);
    if (own !== undefined) own.running++;
    try {
      if (cancels) cancelModern(message);
      const reply: Reply = cancels ? noReply : await route.answer(exchange);
      return reply.message;
    } finally {
      if (own !== undefined) own.running--;
      if (message.kind === "request" && running.get(message.id.key) === exchange) running.delete(message.id.key);
      leaveWhenDone();
    }
  }

  /** Modern requests stand alone, so a cancel is ours to carry out: upstream each request is told in its own way. */
  function cancelModern(message: Message): void {
    const target = metadataOf(message).related;
    if (target !== undefined) running.get(target.id.key)?.cancellation.cancel("client-gone");
  }

  function refused(refusal: Parameters<typeof refusalReply>[0]): Message | undefined {
    gateway.countRefusal(route, refusal.error);
    return refusalReply(refusal).message;
  }

  function exchangeFor(message: Message, revision: Revision, own: Session | undefined): Exchange {
    const { principal } = client;
    own?.renew(principal);
    return createExchange({
      id: newExchangeId(),
      message,
      route: route.name,
      principal,
      revision,
      session: own,
      transport: client.context,
      timing: timingOf(clock),
      reply: message.kind === "request" ? stream : undefined,
    });
  }

  return {
    message: received,
    malformed: (bytes, reason) => {
      log.warn({ route: route.name, bytes: bytes.length, reason }, "the client sent something that is no message");
      const outcome = parse(bytes, {
        revision: revisionWithoutHeader,
        mode: "enforce",
        limits: limits.parse,
      });
      if (!outcome.ok) send(refusalReply(parseFailureResponse(outcome.failure)).message);
    },
    closed: (error) => {
      log.debug({ route: route.name, reason: error.message }, "the client has gone");
      isInputOver = true;
      if (!client.mayStillRead) for (const exchange of running.values()) exchange.cancellation.cancel("client-gone");
      leaveWhenDone();
    },
  };
}

function headersOf(message: Message & { method: string }): (name: string) => string | undefined {
  if (memberString(message, "params._meta.io.modelcontextprotocol/protocolVersion") === undefined)
    return () => undefined;
  const mirrored = mirroredHeadersOf(message, "");
  const lines = mirrored.ok ? mirrored.headers : [];
  return (name) => lines.find(([line]) => line.toLowerCase() === name)?.[1];
}
