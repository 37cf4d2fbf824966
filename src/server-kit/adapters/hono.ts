import type { IncomingMessage } from "node:http";

import { type Mountable, readPeerDetails, withoutPrefix } from "./node.ts";

/** What the middleware needs of a Hono context. */
interface HonoContext {
  readonly req: { readonly raw: Request };
  readonly env: unknown;
}

/**
 * Middleware that serves a kit inside a Hono app: `app.use(toHono(kit))`, or under a prefix
 * `app.use(toHono(kit, { prefix: "/tools" }))`. What is not the kit's goes on to the next handler.
 */
export function toHono(
  kit: Mountable,
  { prefix = "" }: { readonly prefix?: string } = {},
): (context: HonoContext, next: () => Promise<void>) => Promise<Response | undefined> {
  return async ({ req: { raw }, env }, next) => {
    const url = new URL(raw.url);
    const path = withoutPrefix(url.pathname, prefix);
    const incoming = incomingOf(env);
    const facts = incoming === undefined ? { prefix } : readPeerDetails(incoming, prefix);
    const response =
      path === undefined
        ? undefined
        : await kit.handle(withPath(raw, url, path), { ...facts, native: incoming ?? env });
    if (response !== undefined) return response;
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

/** On Node the request that Hono was given stands in the environment; elsewhere there is none. */
function incomingOf(env: unknown): IncomingMessage | undefined {
  if (typeof env !== "object" || env === null || !("incoming" in env)) return undefined;
  const { incoming } = env;
  return typeof incoming === "object" && incoming !== null && "socket" in incoming
    ? (incoming as IncomingMessage)
    : undefined;
}
