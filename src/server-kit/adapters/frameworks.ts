import type { IncomingMessage, ServerResponse } from "node:http";

import type { HttpEdge } from "../http/contract.ts";
import { handleNodeRequest, readPeerDetails, withoutPrefix } from "./node.ts";

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

/** The part of a Fastify instance that the plugin uses. */
export interface FastifyHost {
  addHook(
    name: "onRequest",
    hook: (
      request: { readonly raw: IncomingMessage },
      reply: { readonly raw: ServerResponse; hijack(): unknown },
    ) => Promise<void>,
  ): unknown;
}

/**
 * A Fastify plugin that serves a kit. It answers before bodies are parsed, and only paths of the kit.
 *
 * @example
 * app.register(toFastify(kit));
 * app.register(toFastify(kit), { prefix: "/tools" });
 */
export function toFastify(
  kit: Pick<HttpEdge, "handle">,
): (instance: FastifyHost, options: { readonly prefix?: string }, done: () => void) => void {
  const plugin: ReturnType<typeof toFastify> = (instance, { prefix = "" }, done) => {
    instance.addHook("onRequest", async ({ raw }, reply) => {
      const path = withoutPrefix(raw.url ?? "/", prefix);
      if (path === undefined) return;
      // Fastify must not touch the response of a request that the kit handles.
      await handleNodeRequest(kit, raw, reply.raw, { prefix, path, onHandled: () => void reply.hijack() });
    });
    done();
  };
  // Hooks of a plugin only apply to its own routes, unless it opts out of encapsulation (Fastify, "skip-override").
  return Object.assign(plugin, { [Symbol.for("skip-override")]: true });
}

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
