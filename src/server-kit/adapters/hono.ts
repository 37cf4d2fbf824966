import type { IncomingMessage } from "node:http";

import type { HttpEdge } from "../http/contract.ts";
import { readPeerDetails, withoutPrefix } from "./node.ts";

/**
 * Middleware that serves a kit inside a Hono app. Other paths go to the next handler.
 *
 * @example
 * app.use(toHono(kit));
 * app.use(toHono(kit, { prefix: "/tools" }));
 */
export function toHono(
  kit: Pick<HttpEdge, "handle">,
  { prefix = "" }: { readonly prefix?: string } = {},
): (
  context: { readonly req: { readonly raw: Request }; readonly env: unknown },
  next: () => Promise<void>,
) => Promise<Response | undefined> {
  return async ({ req: { raw }, env }, next) => {
    const url = new URL(raw.url);
    const path = withoutPrefix(url.pathname, prefix);
    if (path !== undefined) {
      const incoming = incomingOf(env);
      const details = incoming === undefined ? { prefix } : readPeerDetails(incoming, prefix);
      const response = await kit.handle(withPath(raw, url, path), { ...details, native: incoming ?? env });
      if (response !== undefined) return response;
    }
    await next();
    return undefined;
  };
}

function withPath(request: Request, url: URL, path: string): Request {
  if (path === url.pathname) return request;
  const moved = new URL(url);
  moved.pathname = path;
  return new Request(moved, request);
}

/** On Node, Hono's environment holds the incoming message. */
function incomingOf(env: unknown): IncomingMessage | undefined {
  if (typeof env !== "object" || env === null || !("incoming" in env)) return undefined;
  const { incoming } = env;
  return typeof incoming === "object" && incoming !== null && "socket" in incoming
    ? (incoming as IncomingMessage)
    : undefined;
}
