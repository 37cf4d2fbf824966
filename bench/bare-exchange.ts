import { anonymous, type Exchange, type Principal } from "../src/core/exchange.ts";
import type { Message } from "../src/protocol/message.ts";
import { parseMessage } from "../src/protocol/parse.ts";
import { exchangeWith } from "../test/support/exchange.ts";

/** A message of these members. */
export function messageOf(members: Readonly<Record<string, unknown>>): Message {
  const outcome = parseMessage({ jsonrpc: "2.0", ...members }, { revision: "2025-11-25", mode: "enforce" });
  if (!outcome.ok) throw new Error(outcome.failure.message);
  return outcome.message;
}

/** A client's message on its way, with nothing around it that would be measured too. */
export function exchangeOf(message: Message, principal: Principal = anonymous): Exchange {
  return exchangeWith(message, { id: "bench", route: "bench", principal });
}
