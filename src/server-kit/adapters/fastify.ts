import type { IncomingMessage, ServerResponse } from "node:http";

import type { HttpEdge } from "../http/contract.ts";
import { handleNodeRequest, withoutPrefix } from "./node.ts";

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
