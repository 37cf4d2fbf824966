import type { IncomingMessage, ServerResponse } from "node:http";

import { handleNodeRequest, type Mountable, withoutPrefix } from "./node.ts";

/** What the plugin needs of a Fastify instance. */
interface FastifyInstance {
  addHook(
    name: "onRequest",
    hook: (
      request: { readonly raw: IncomingMessage },
      reply: { readonly raw: ServerResponse; hijack(): unknown },
    ) => Promise<void>,
  ): unknown;
}

/** A Fastify plugin. */
type Plugin = (instance: FastifyInstance, options: { readonly prefix?: string }, done: () => void) => void;

/**
 * A plugin that serves a kit inside a Fastify app: `app.register(toFastify(kit))`, or under a prefix
 * `app.register(toFastify(kit), { prefix: "/tools" })`. It answers before bodies are parsed, and only what is the kit's.
 */
export function toFastify(kit: Mountable): Plugin {
  const plugin: Plugin = (instance, { prefix = "" }, done) => {
    instance.addHook("onRequest", async ({ raw }, reply) => {
      const path = withoutPrefix(raw.url ?? "/", prefix);
      if (path === undefined) return;
      // Once the answer is ours Fastify must not touch the response any more.
      await handleNodeRequest(kit, raw, reply.raw, { prefix, path, onTaken: () => void reply.hijack() });
    });
    done();
  };
  // Hooks of a plugin hold for the plugin's own routes only, unless it says so (Fastify, "skip-override").
  return Object.assign(plugin, { [Symbol.for("skip-override")]: true });
}
