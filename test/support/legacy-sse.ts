import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { Pool } from "undici";

import { anonymous, systemTimer } from "../../src/core/exchange.ts";
import { defaultLimits } from "../../src/protocol/message.ts";
import { createKeepAlive } from "../../src/transports/http/sse-response.ts";
import type { SseUpstream } from "../../src/transports/legacy-sse/client.ts";
import { createSseServer, type SseServer, type SseServerOptions } from "../../src/transports/legacy-sse/server.ts";

/** An HTTP+SSE upstream as the gateway would make it of its configuration. */
export interface TestUpstream extends AsyncDisposable {
  readonly upstream: SseUpstream;
}

/** Makes the upstream whose event stream is at the URL. */
export function sseUpstream(url: string, changes: Partial<SseUpstream> = {}): TestUpstream {
  const { origin, pathname, search } = new URL(url);
  const dispatcher = new Pool(origin, { connections: null });
  let ids = 0;
  return {
    upstream: {
      origin,
      path: pathname + search,
      headers: {},
      dispatcher,
      limits: defaultLimits,
      setTimer: systemTimer,
      newId: () => `channel-${++ids}`,
      ...changes,
    },
    [Symbol.asyncDispose]: () => dispatcher.destroy(),
  };
}

/** The two endpoints on a free port. */
export interface ServedSse extends AsyncDisposable {
  readonly origin: string;
  readonly server: SseServer;
}

/** Serves `…/sse` and `…/messages` under every prefix, until disposed of. */
export async function serveSse(
  options: Partial<SseServerOptions> & Pick<SseServerOptions, "accept">,
): Promise<ServedSse> {
  let ids = 0;
  const server = createSseServer({
    stream: { queueBytes: 1_048_576, keepAlive: createKeepAlive(15_000, systemTimer) },
    maxBytes: () => defaultLimits.maxBytes,
    newId: () => `id-${++ids}`,
    setTimer: systemTimer,
    principalOf: () => anonymous,
    ...options,
  });
  const http = createServer((request, response) => {
    const isStream = /\/sse(?:\?|$)/u.test(request.url ?? "");
    if (isStream) server.stream(request, response);
    else void server.messages(request, response);
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  return {
    // Only a server on a pipe has another kind of address.
    origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    server,
    [Symbol.asyncDispose]: async () => {
      const closed = once(http, "close");
      http.close();
      http.closeAllConnections();
      await closed;
    },
  };
}
