import type { IncomingMessage } from "node:http";
import type { ErrorCode } from "../../errors.ts";
import type { Exchange, MessageOrigin, Principal } from "../../core/exchange.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { memberString } from "../../protocol/json/read.ts";
import { createDiagnostic, type Diagnostic } from "../../protocol/diagnostics.ts";
import type { Message, ParseFailure, ParseLimits } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { parse } from "../../protocol/parse.ts";
import { parseRevision, type Revision, revisions, revisionWithoutHeader } from "../../protocol/revisions.ts";
import { createSseDecoder, type SseDecoder } from "../../protocol/sse/decoder.ts";
import { isEventStreamContentType } from "../../protocol/sse/final-response.ts";
import { warnUnknownRevision } from "../../protocol/validation/semantic.ts";
import type { CorrelationScope, Correlator } from "../../sessions/pending/correlator.ts";
import type { CorrelationEntry, RequestDirection } from "../../sessions/pending/entry.ts";
import { shortenName } from "../../telemetry/log.ts";
import type { Leg } from "../wiring/wire-observer.ts";
import type { ObservedValidation } from "./observed-validation.ts";
import type { ObservedCall, ObservedMessages } from "./observed-route.ts";

/** Observes traffic that has already passed. */
export interface TrafficObserver {
  open(request: IncomingMessage, principal: Principal): ObservedRequest;
  /** The message that is being correlated: findings about no request are about it. */
  readonly current: Exchange | undefined;
  /** Why the HTTP exchange ends that is being closed right now, with the requests that it leaves unanswered. */
  readonly closing: ErrorCode | undefined;
}

/** One HTTP request and its response, as they pass. */
export interface ObservedRequest {
  readonly fromClient: (chunk: Buffer) => void;
  readonly clientDone: () => void;
  readonly answered: (status: number, headers: Readonly<Record<string, string | string[] | undefined>>) => void;
  readonly fromUpstream: (chunk: Buffer) => void;
  /** The HTTP exchange has ended: the client left, or the server has nothing more to say or could not be reached. */
  readonly closed: (code: ErrorCode) => void;
}

export interface TrafficObserverDeps {
  readonly route: string;
  readonly limits: ParseLimits;
  readonly findingsIn: ObservedValidation;
  readonly correlator: Correlator<Exchange>;
  /** Receives all findings about messages. */
  readonly onFound: (diagnostic: Diagnostic, about: MessageOrigin) => void;
  /** Receives the messages of each request with their caller. */
  readonly exchanges: (call: ObservedCall) => ObservedMessages;
}

/** Sessions whose ids are compared, and unknown revisions that are remembered. */
const mostSessions = 1000;
const mostRevisions = 100;

/** Creates the observer of a route in observe mode: it parses, correlates and logs. */
export function createTrafficObserver(options: TrafficObserverDeps): TrafficObserver {
  const { route, limits, findingsIn, correlator, onFound } = options;
  const sessions = new BoundedMap<string, CorrelationScope<Exchange>>(mostSessions);
  const sessionRevisions = new SessionRevisions();
  let current: Exchange | undefined;
  let closing: ErrorCode | undefined;

  function report(diagnostics: readonly Diagnostic[], about: MessageOrigin): void {
    for (const diagnostic of diagnostics) onFound(diagnostic, about);
  }

  /** The scope of a request's ids: its session, or the HTTP exchange itself. */
  function scopeOf(request: IncomingMessage, principal: Principal, revision: Revision): CorrelationScope<Exchange> {
    const key = sessionKey(request.headers, principal);
    if (key === undefined) return correlator.scope({ kind: "exchange", revision, realm: route });
    const scope = sessions.touch(key) ?? correlator.scope({ kind: "session", revision, realm: route });
    sessions.set(key, scope);
    if (scope.revision !== revision) scope.setRevision(revision);
    return scope;
  }

  return {
    get current() {
      return current;
    },
    get closing() {
      return closing;
    },
    open: (request, principal) => {
      const named = request.headers["mcp-protocol-version"];
      const reading = typeof named === "string" ? parseRevision(named) : undefined;
      const revision = reading?.ok === true ? reading.revision : revisionWithoutHeader;
      const session = sessionKey(request.headers, principal);
      const scope = scopeOf(request, principal, revision);
      const entries: CorrelationEntry<Exchange>[] = [];
      const header = (name: string): string | undefined => {
        const value = request.headers[name];
        return typeof value === "string" ? value : value?.join(", ");
      };
      const told = options.exchanges({ request, principal, revision });
      const sent = new Collected(limits.maxBytes);
      let answer = new Collected(limits.maxBytes);
      let decoder: SseDecoder | undefined;
      /** The session that the response opens. */
      let opened: string | undefined;

      /** Passes on the messages in some bytes; findings about a batch come with its first message. */
      const each = (bytes: Buffer, leg: Leg, take: (message: Message, found?: readonly Diagnostic[]) => void): void => {
        const { messages, diagnostics } = messagesIn(bytes, revision, leg, told, options);
        for (const [index, message] of messages.entries()) take(message, index === 0 ? diagnostics : []);
      };
      const correlate = (message: Message, direction: RequestDirection, exchange: Exchange): void => {
        current = exchange;
        if (message.kind === "request") {
          const opening = scope.open(direction, message, exchange);
          if (opening.ok) entries.push(opening.entry);
        } else if (message.kind === "notification") scope.notify(direction, message);
        else scope.settle(direction, message);
        current = undefined;
      };
      const clientSent = (message: Message, found: readonly Diagnostic[] = []): void => {
        const direction = "client-to-server";
        const exchange = told.fromClient(message);
        report(found, exchange);
        if (typeof named === "string") report(sessionRevisions.check(named, session), exchange);
        report(metadataOf(message).diagnostics, exchange);
        report(findingsIn(message, { revision, direction, header, exchange, session }), exchange);
        correlate(message, direction, exchange);
        told.done("upstream", message, exchange);
      };
      const upstreamSent = (message: Message, found: readonly Diagnostic[] = []): void => {
        const direction = "server-to-client";
        const exchange = told.fromUpstream(message);
        report(found, exchange);
        const { method: asked } = exchange.message;
        const version = asked === "initialize" ? memberString(message, "result.protocolVersion") : undefined;
        if (version !== undefined && opened !== undefined) sessionRevisions.agreed(opened, version);
        report(metadataOf(message).diagnostics, exchange);
        report(findingsIn(message, { revision, direction, header, exchange, session: session ?? opened }), exchange);
        correlate(message, direction, exchange);
        told.done("client", message, exchange);
      };

      return {
        fromClient: (chunk) => {
          sent.add(chunk);
        },
        clientDone: () => {
          if (!sent.isEmpty) each(sent.take(), "client", clientSent);
        },
        answered: (_status, headers) => {
          opened = sessionKey(headers, principal);
          const type = headers["content-type"];
          if (typeof type !== "string" || !isEventStreamContentType(type)) return;
          decoder = createSseDecoder({
            maxEventBytes: limits.maxBytes,
            onEvent: ({ kind, data }) => {
              if (kind === "data") each(data, "upstream", upstreamSent);
            },
          });
        },
        fromUpstream: (chunk) => {
          if (decoder === undefined) answer.add(chunk);
          else decoder.push(chunk);
        },
        closed: (code) => {
          if (decoder === undefined && !answer.isEmpty) each(answer.take(), "upstream", upstreamSent);
          answer = new Collected(0);
          // The answer may come on another connection, to a client that resumes the stream.
          const mayResume = decoder !== undefined && session !== undefined && revisions[revision].resumption;
          closing = code;
          if (!mayResume)
            for (const entry of entries)
              if (code === "cancelled") entry.close();
              else entry.finish("abandoned");
          closing = undefined;
          told.closed();
        },
      };
    },
  };
}

/** The session id in the headers, bound to the caller; undefined without one. */
function sessionKey(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  principal: Principal,
): string | undefined {
  const session = headers["mcp-session-id"];
  return typeof session === "string" ? `${principal.id} ${session}` : undefined;
}

/** The messages in some bytes, and what is wrong with them as a batch; anything else is recorded as it arrived (SC-030, SC-039). */
function messagesIn(
  bytes: Buffer,
  revision: Revision,
  leg: Leg,
  told: ObservedMessages,
  { limits, onFound }: Pick<TrafficObserverDeps, "limits" | "onFound">,
): { readonly messages: readonly Message[]; readonly diagnostics: readonly Diagnostic[] } {
  const outcome = parse(bytes, { revision, mode: "observe", limits });
  const invalid = ({ reason, message }: ParseFailure): void => {
    const found: Diagnostic = reason.startsWith("json.")
      ? createDiagnostic("event.not-json", message)
      : { code: reason, severity: "warn", message };
    onFound(found, told.raw(leg, bytes));
  };
  if (!outcome.ok) {
    invalid(outcome.failure);
    return { messages: [], diagnostics: [] };
  }
  if (outcome.form === "single") return { messages: [outcome.message], diagnostics: [] };
  const messages = outcome.members.flatMap((member) => {
    if (!member.ok) invalid(member.failure);
    return member.ok ? [member.message] : [];
  });
  return { messages, diagnostics: outcome.diagnostics };
}

/** Compares the revisions that headers name with those that sessions agreed on (SC-005), and with all known ones (SC-007). */
class SessionRevisions {
  readonly #agreed = new BoundedMap<string, string>(mostSessions);
  readonly #warned = new Set<string>();

  /** A handshake was seen. */
  agreed(session: string, revision: string): void {
    this.#agreed.set(session, revision);
  }

  /** What is wrong with the revision that a header names. */
  check(named: string, session: string | undefined): readonly Diagnostic[] {
    const expected = session === undefined ? undefined : this.#agreed.touch(session);
    const unknown = parseRevision(named).ok || this.#warned.size >= mostRevisions ? [] : this.#warnOnce(named);
    if (expected === undefined || expected === named) return unknown;
    const text = `the header MCP-Protocol-Version says ${shortenName(named)}, but the session agreed on ${expected}`;
    return [createDiagnostic("revision.mismatch", text), ...unknown];
  }

  #warnOnce(named: string): readonly Diagnostic[] {
    const found = warnUnknownRevision(named, this.#warned);
    this.#warned.add(named);
    return found;
  }
}

/** Collects bytes up to a limit. */
class Collected {
  readonly #chunks: Buffer[] = [];
  readonly #limit: number;
  #size = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isEmpty(): boolean {
    return this.#size === 0;
  }

  add(chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size <= this.#limit) this.#chunks.push(chunk);
    else this.#chunks.length = 0;
  }

  take(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}
