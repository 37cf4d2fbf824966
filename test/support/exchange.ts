import { createExchange } from "../../src/core/exchange.ts";
import { anonymous, type Exchange } from "../../src/core/exchange.ts";
import { type Message, messageBytes } from "../../src/protocol/message.ts";
import { parseText } from "../../src/protocol/parse.ts";

/** Parses text that the test knows to be a message and whose spelling matters to it. */
export function messageFrom(text: string): Message {
  const outcome = parseText(text, { revision: "unknown", mode: "observe" });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new Error(`not a message: ${text}`);
}

/** The text of a message. */
export function textOf(message: Message | undefined): string | undefined {
  return message === undefined ? undefined : messageBytes(message).toString();
}

/** The value of a message, for comparing. */
export function valueOf(message: Message | undefined): unknown {
  const text = textOf(message);
  return text === undefined ? undefined : JSON.parse(text);
}

/** A client's exchange in process with the newest legacy revision; what a test cares about is given. */
export function exchangeWith(message: Message, facts: Partial<Exchange> = {}): Exchange {
  const exchange = createExchange({
    id: "exchange-1",
    message,
    route: "test",
    principal: anonymous,
    revision: "2025-11-25",
    transport: { type: "in-process" },
    timing: { startedAt: 0, wallTime: 0 },
  });
  return { ...exchange, ...facts };
}
