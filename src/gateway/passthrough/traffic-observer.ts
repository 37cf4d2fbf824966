import type { IncomingMessage } from "node:http";
import type { Principal } from "../../core/exchange.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { Message, ParseLimits, RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { parse } from "../../protocol/parse.ts";
import { parseRevision, type Revision, revisionWithoutHeader } from "../../protocol/revisions.ts";
import { createSseDecoder, type SseDecoder } from "../../protocol/sse/decoder.ts";
import { isEventStreamContentType } from "../../protocol/sse/final-response.ts";
import type { Correlator } from "../../sessions/pending/correlator.ts";
import type { CorrelationEntry } from "../../sessions/pending/entry.ts";
import { type Logger, shortenName } from "../../telemetry/log.ts";
import type { ObservedValidation } from "./observed-validation.ts";
import type { ObservedCall, ObservedMessages } from "./observed-route.ts";

/** Observes traffic that has already passed. */
export interface TrafficObserver {
  open(request: IncomingMessage, principal: Principal): ObservedRequest;
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
  readonly correlator: Correlator<undefined>;
  readonly log: Logger;
  /** Called with every message, in the order in which they passed. */
  readonly onMessage?: (message: Message, from: "client" | "upstream") => void;
  /** Receives the messages of each request with their caller. */
  readonly exchanges?: ((call: ObservedCall) => ObservedMessages) | undefined;
}

/** Creates the observer of a route in observe mode: it parses, correlates and logs. */
export function createTrafficObserver(options: TrafficObserverDeps): TrafficObserver {
  const { route, limits, findingsIn, correlator, log } = options;

  function report(diagnostics: readonly Diagnostic[]): void {
    for (const { code, message, path } of diagnostics)
      log.warn({ route, diagnostic: code, path, reason: message }, "observed");
  }

  /** The messages in some bytes; malformed data is logged. */
  function messagesIn(bytes: Buffer, revision: Revision): readonly Message[] {
    const outcome = parse(bytes, { revision, mode: "observe", limits });
    if (!outcome.ok) {
      const { reason, message } = outcome.failure;
      log.warn({ route, diagnostic: reason, reason: message }, "observed malformed data");
      return [];
    }
    const members = outcome.form === "single" ? [outcome] : outcome.members;
    return members.flatMap((member) => (member.ok ? [member.message] : []));
  }

  return {
    open: (request, principal) => {
      const named = request.headers["mcp-protocol-version"];
      const reading = typeof named === "string" ? parseRevision(named) : undefined;
      const revision = reading?.ok === true ? reading.revision : revisionWithoutHeader;
      const entries = new Map<string, CorrelationEntry<undefined>>();
      const requests = new Map<string, RequestMessage>();
      const header = (name: string): string | undefined => {
        const value = request.headers[name];
        return typeof value === "string" ? value : value?.join(", ");
      };
      const told = options.exchanges?.({ request, principal, revision });
      const sent = new Collected(limits.maxBytes);
      let answer = new Collected(limits.maxBytes);
      let decoder: SseDecoder | undefined;

      const clientSent = (message: Message): void => {
        options.onMessage?.(message, "client");
        told?.fromClient(message);
        report(metadataOf(message).diagnostics);
        const direction = "client-to-server";
        report(findingsIn(message, { revision, direction, header, request: undefined }));
        if (message.kind !== "request") return;
        requests.set(message.id.key, message);
        const opening = correlator.single({ kind: "exchange", revision, realm: route }, direction, message, undefined);
        if (opening.ok) entries.set(message.id.key, opening.entry);
      };
      const upstreamSent = (message: Message): void => {
        options.onMessage?.(message, "upstream");
        told?.fromUpstream(message);
        report(metadataOf(message).diagnostics);
        const key = message.id?.key ?? "";
        report(findingsIn(message, { revision, direction: "server-to-client", header, request: requests.get(key) }));
        const entry = entries.get(key);
        if (message.kind === "result" || message.kind === "error") entry?.settle(message);
        else if (message.kind === "notification")
          for (const open of entries.values()) open.notify("server-to-client", message);
        const tool = message.kind === "request" ? memberString(message, "params.name") : undefined;
        log.info(
          {
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
          for (const message of sent.isEmpty ? [] : messagesIn(sent.take(), revision)) clientSent(message);
        },
        answered: (_status, headers) => {
          const type = headers["content-type"];
          if (typeof type !== "string" || !isEventStreamContentType(type)) return;
          decoder = createSseDecoder({
            maxEventBytes: limits.maxBytes,
            onEvent: ({ kind, data }) => {
              if (kind === "data") for (const message of messagesIn(data, revision)) upstreamSent(message);
            },
          });
        },
        fromUpstream: (chunk) => {
          if (decoder === undefined) answer.add(chunk);
          else decoder.push(chunk);
        },
        closed: () => {
          if (decoder === undefined && !answer.isEmpty)
            for (const message of messagesIn(answer.take(), revision)) upstreamSent(message);
          answer = new Collected(0);
          for (const entry of entries.values()) entry.close();
          told?.closed();
        },
      };
    },
  };
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
