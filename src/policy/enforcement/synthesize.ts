import type { Message, RequestMessage } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";

/** A message that stands for a part of another one; undefined if its text is not a valid message. */
export function synthesizeMessage(text: string): Message | undefined {
  const outcome = parseText(text, { revision: "unknown", mode: "enforce" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

/** A request from the JSON texts of its id and params. */
export function synthesizeRequest(id: string, method: string, params: string | undefined): RequestMessage | undefined {
  const member = params === undefined ? "" : `,"params":${params}`;
  const message = synthesizeMessage(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}${member}}`);
  return message?.kind === "request" ? message : undefined;
}

/** A result from the JSON texts of its id and result. */
export function synthesizeResult(id: string, result: string): Message | undefined {
  const message = synthesizeMessage(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
  return message?.kind === "result" ? message : undefined;
}
