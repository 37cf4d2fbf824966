import { type ByteBudget, countedFrom, type HeldBytes } from "../../../core/byte-budget.ts";
import { type Exchange, limitKeyOf } from "../../../core/exchange.ts";
import type { Guard } from "../../../core/pipeline.ts";
import { GatewayError } from "../../../errors.ts";
import { diagnosticTable } from "../../../protocol/diagnostics.ts";
import { messageBytes } from "../../../protocol/message.ts";
import type { WireObserver } from "../../wiring/wire-observer.ts";

/**
 * Creates the guard that counts the bytes of messages in transit: those of a request until its answer, those of others
 * until they are sent. Messages of Streamable HTTP are counted with the body that they are a part of. An answer that its
 * client has no room for becomes an error; there is no room because the client does not read what came before.
 */
export function createByteGuard(bytes: ByteBudget, observer: Pick<WireObserver, "found">): Guard {
  const held = new Map<Exchange, HeldBytes>();
  const isCounted = ({ original, direction, transport }: Exchange): boolean =>
    original.bytes.length >= countedFrom && (direction === "server-to-client" || transport.type !== "http");
  const leave = (exchange: Exchange): void => {
    if (!isCounted(exchange)) return;
    held.get(exchange)?.release();
    held.delete(exchange);
  };
  return {
    enter: (exchange) => {
      if (!isCounted(exchange)) return undefined;
      const memory = bytes.hold(limitKeyOf(exchange.principal));
      const refusal = memory.resize(messageBytes(exchange.original).length);
      if (refusal === undefined) held.set(exchange, memory);
      else observer.found(diagnosticTable["bytes.exceeded"], exchange);
      return refusal;
    },
    answered: (exchange, reply) => {
      leave(exchange);
      if (reply.message === undefined || exchange.direction === "server-to-client") return reply;
      const refusal = bytes.problem(limitKeyOf(exchange.principal), messageBytes(reply.message).length);
      if (refusal === undefined) return reply;
      observer.found(diagnosticTable["bytes.exceeded"], exchange);
      throw answerDropped(refusal);
    },
    failed: leave,
  };
}

function answerDropped({ code, message, details = {} }: GatewayError): GatewayError {
  // Trying again at once would execute it again.
  const { retryAfter: _none, ...rest } = details;
  const text = `the answer is lost, although the server may have executed the request: ${message}`;
  return new GatewayError(code, text, { details: { ...rest, answered: true } });
}
