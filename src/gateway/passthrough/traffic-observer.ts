import type { IncomingMessage } from "node:http";
import type { Exchange, MessageOrigin, Principal } from "../../core/exchange.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { memberString } from "../../protocol/json/read.ts";
import { createDiagnostic, type Diagnostic } from "../../protocol/diagnostics.ts";
import type { Message, ParseFailure, ParseLimits, RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { parse } from "../../protocol/parse.ts";
import { parseRevision, type Revision, revisionWithoutHeader } from "../../protocol/revisions.ts";
import { createSseDecoder, type SseDecoder } from "../../protocol/sse/decoder.ts";
import { isEventStreamContentType } from "../../protocol/sse/final-response.ts";
import { warnUnknownRevision } from "../../protocol/validation/semantic.ts";
import type { CorrelationScope, Correlator } from "../../sessions/pending/correlator.ts";
import type { CorrelationEntry, RequestDirection } from "../../sessions/pending/entry.ts";
import { type Logger, shortenName } from "../../telemetry/log.ts";
import type { Leg } from "../wiring/wire-observer.ts";
import type { ObservedValidation } from "./observed-validation.ts";
import type { ObservedCall, ObservedMessages } from "./observed-route.ts";

/** Observes traffic that has already passed. */
export interface TrafficObserver {
  open(request: IncomingMessage, principal: Principal): ObservedRequest;
  /** The message that is being correlated right now: what is found about no request is found about it. */
  readonly current: Exchange | undefined;
}

/** One HTTP request and its response, as they pass. */
export interface ObservedRequest {
  fromClient(chunk: Buffer): void;
  clientDone(): void;
  answered(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void;
  fromUpstream(chunk: Buffer): void;
  closed(): void;
}

export interface TrafficObserverDeps {
  readonly route: string;
  readonly limits: ParseLimits;
  readonly findingsIn: ObservedValidation;
  readonly correlator: Correlator<Exchange>;
  readonly log: Logger;
  /** Takes everything that is found about messages. */
  readonly onFound: (diagnostic: Diagnostic, about: MessageOrigin) => void;
  /** Receives the messages of each request with their caller. */
  readonly exchanges: (call: ObservedCall) => ObservedMessages;
}

/** Sessions whose ids are compared, and unknown revisions that are remembered. */
const mostSessions = 1000;
const mostRevisions = 100;

/** Creates the observer of a route in observe mode: it parses, correlates and logs. */
export function createTrafficObserver(options: TrafficObserverDeps): TrafficObserver {
  const { route, limits, findingsIn, correlator, log, onFound } = options;
  const sessions = new BoundedMap<string, CorrelationScope<Exchange>>(mostSessions);
  const warned = new Set<string>();
  let current: Exchange | undefined;

  function report(diagnostics: readonly Diagnostic[], about: MessageOrigin): void {
    for (const diagnostic of diagnostics) onFound(diagnostic, about);
  }

  /** The scope of a request's ids: its session, or the HTTP exchange itself. */
  function scopeOf(request: IncomingMessage, principal: Principal, revision: Revision): CorrelationScope<Exchange> {
    const session = request.headers["mcp-session-id"];
    if (typeof session !== "string") return correlator.scope({ kind: "exchange", revision, realm: route });
    const key = `${principal.id} ${session}`;
    const scope = sessions.touch(key) ?? correlator.scope({ kind: "session", revision, realm: route });
    sessions.set(key, scope);
    if (scope.revision !== revision) scope.setRevision(revision);
    return scope;
  }

  function warnOfRevision(named: string, about: MessageOrigin): void {
    if (warned.size >= mostRevisions) return;
    report(warnUnknownRevision(named, warned), about);
    warned.add(named);
  }

  return {
    get current() {
      return current;
    },
    open: (request, principal) => {
      const named = request.headers["mcp-protocol-version"];
      const reading = typeof named === "string" ? parseRevision(named) : undefined;
      const revision = reading?.ok === true ? reading.revision : revisionWithoutHeader;
      const isUnknown = reading?.ok === false;
      const scope = scopeOf(request, principal, revision);
      const entries: CorrelationEntry<Exchange>[] = [];
      const requests = new Map<string, RequestMessage>();
      const header = (name: string): string | undefined => {
        const value = request.headers[name];
        return typeof value === "string" ? value : value?.join(", ");
      };
      const told = options.exchanges({ request, principal, revision });
      const sent = new Collected(limits.maxBytes);
      let answer = new Collected(limits.maxBytes);
      let decoder: SseDecoder | undefined;

      const correlate = (message: Message, direction: RequestDirection, exchange: Exchange): void => {
        current = exchange;
        if (message.kind === "request") {
          const opening = scope.open(direction, message, exchange);
          if (opening.ok) entries.push(opening.entry);
        } else if (message.kind === "notification") scope.notify(direction, message);
        else scope.settle(direction, message);
        current = undefined;
      };
      const clientSent = (message: Message): void => {
        const direction = "client-to-server";
        const exchange = told.fromClient(message);
        if (isUnknown && typeof named === "string") warnOfRevision(named, exchange);
        report(metadataOf(message).diagnostics, exchange);
        report(findingsIn(message, { revision, direction, header, request: undefined }), exchange);
        if (message.kind === "request") requests.set(message.id.key, message);
        correlate(message, direction, exchange);
        told.done("upstream", message, exchange);
      };
      const upstreamSent = (message: Message): void => {
        const direction = "server-to-client";
        const exchange = told.fromUpstream(message);
        report(metadataOf(message).diagnostics, exchange);
        report(
          findingsIn(message, { revision, direction, header, request: requests.get(message.id?.key ?? "") }),
          exchange,
        );
        correlate(message, direction, exchange);
        told.done("client", message, exchange);
        const tool = message.kind === "request" ? memberString(message, "params.name") : undefined;
        log.info(
          {
            exchange: exchange.id,
            route,
            kind: message.kind,
            method: shortenName(message.method),
            target: shortenName(tool),
            rpc: shortenName(message.id?.json),
          },
          "observed",
        );
      };

      return {
        fromClient: (chunk) => {
          sent.add(chunk);
        },
        clientDone: () => {
          for (const message of sent.isEmpty ? [] : messagesIn(sent.take(), revision, "client", told, options))
            clientSent(message);
        },
        answered: (_status, headers) => {
          const type = headers["content-type"];
          if (typeof type !== "string" || !isEventStreamContentType(type)) return;
          decoder = createSseDecoder({
            maxEventBytes: limits.maxBytes,
            onEvent: ({ kind, data }) => {
              if (kind === "data")
                for (const message of messagesIn(data, revision, "upstream", told, options)) upstreamSent(message);
            },
          });
        },
        fromUpstream: (chunk) => {
          if (decoder === undefined) answer.add(chunk);
          else decoder.push(chunk);
        },
        closed: () => {
          if (decoder === undefined && !answer.isEmpty)
            for (const message of messagesIn(answer.take(), revision, "upstream", told, options)) upstreamSent(message);
          answer = new Collected(0);
          for (const entry of entries) entry.close();
          told.closed();
        },
      };
    },
  };
}

/** The messages in some bytes; whatever is none is recorded as it came (SC-030, SC-039). */
function messagesIn(
  bytes: Buffer,
  revision: Revision,
  leg: Leg,
  told: ObservedMessages,
  { limits, onFound }: Pick<TrafficObserverDeps, "limits" | "onFound">,
): readonly Message[] {
  const outcome = parse(bytes, { revision, mode: "observe", limits });
  const invalid = ({ reason, message }: ParseFailure): void => {
    const found: Diagnostic = reason.startsWith("json.")
      ? createDiagnostic("event.not-json", message)
      : { code: reason, severity: "warn", message };
    onFound(found, told.raw(leg, bytes));
  };
  if (!outcome.ok) {
    invalid(outcome.failure);
    return [];
  }
  const members = outcome.form === "single" ? [outcome] : outcome.members;
  return members.flatMap((member) => {
    if (!member.ok) invalid(member.failure);
    return member.ok ? [member.message] : [];
  });
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
