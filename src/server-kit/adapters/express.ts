import type { IncomingMessage, ServerResponse } from "node:http";

import { handleNodeRequest, type Mountable } from "./node.ts";

/** What Express adds to a request of `node:http`, as far as it matters here. */
interface ExpressRequest extends IncomingMessage {
  readonly baseUrl?: string;
  readonly body?: unknown;
}

/**
 * Middleware that serves a kit inside an Express app: `app.use(toExpress(kit))`, or under a prefix
 * `app.use("/tools", toExpress(kit))`. What is not the kit's goes on to the next handler.
 */
export function toExpress(
  kit: Mountable,
): (request: ExpressRequest, response: ServerResponse, next: (error?: unknown) => void) => void {
  return (request, response, next) => {
    void serve(kit, request, response, next);
  };
}

async function serve(
  kit: Mountable,
  request: ExpressRequest,
  response: ServerResponse,
  next: (error?: unknown) => void,
): Promise<void> {
  let isOurs: boolean;
  try {
    // Express has taken the mount path off `url` and put it into `baseUrl`.
    isOurs = await handleNodeRequest(kit, request, response, {
      prefix: request.baseUrl,
      parsedBody: request.body,
    });
  } catch (error) {
    next(error);
    return;
  }
  if (!isOurs) next();
}
