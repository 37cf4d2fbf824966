import type { IncomingMessage, ServerResponse } from "node:http";

import type { HttpEdge } from "../http/contract.ts";
import { handleNodeRequest } from "./node.ts";

/**
 * Middleware that serves a kit inside an Express app. Other paths go to the next handler.
 *
 * @example
 * app.use(toExpress(kit));
 * app.use("/tools", toExpress(kit)); // under a prefix
 */
export function toExpress(
  kit: Pick<HttpEdge, "handle">,
): (
  request: IncomingMessage & { readonly baseUrl?: string; readonly body?: unknown },
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void {
  return (request, response, next) => {
    void serve(kit, request, response, next);
  };
}

async function serve(
  kit: Pick<HttpEdge, "handle">,
  request: Parameters<ReturnType<typeof toExpress>>[0],
  response: ServerResponse,
  next: (error?: unknown) => void,
): Promise<void> {
  // Express has moved the mount path from `url` to `baseUrl`.
  const { baseUrl: prefix, body: parsedBody } = request;
  let isHandled: boolean;
  try {
    isHandled = await handleNodeRequest(kit, request, response, { prefix, parsedBody });
  } catch (error) {
    next(error);
    return;
  }
  if (!isHandled) next();
}
