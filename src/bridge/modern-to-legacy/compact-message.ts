import { messageBytes } from "../../protocol/batch.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { readOwn } from "./own-messages.ts";

/**
 * The same request in as little memory as it can have, for when it has to be kept long: its own bytes and not the
 * network's buffer around them, and an outline that is made anew whenever somebody looks.
 */
export function compactRequest(request: RequestMessage): RequestMessage {
  const { kind, id, method, diagnostics } = request;
  const bytes = Buffer.from(messageBytes(request));
  return {
    kind,
    id,
    method,
    diagnostics,
    bytes,
    get outline() {
      return readOwn(bytes).outline;
    },
  };
}
