import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import type { HttpEdge } from "../contract.ts";
import { handleNodeRequest, type Mountable } from "./node-message.ts";

/** Connections that may wait to be taken; of those that come beyond that, the system tries again only a second later. */
const backlog = 4096;

/** A listener for `http.createServer` and `https.createServer`; paths that are not the kit's are 404. */
export function toNodeListener(
  kit: Mountable,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    handleNodeRequest(kit, incoming, outgoing).then(
      (isOurs) => {
        if (!isOurs)
          outgoing.writeHead(404, { "content-type": "application/json" }).end('{"error":"not_found"}');
      },
      () => {
        // The kit answers its own faults; what is left is a socket that broke in between.
        outgoing.destroy();
      },
    );
  };
}

/** Where to listen. */
export interface KitListenOptions {
  /** 5110 unless said otherwise; 0 takes a free one. */
  readonly port?: number;
  /** Loopback unless said otherwise: whoever wants the network has to say so. */
  readonly host?: string;
}

/** A kit that listens. */
export interface ListeningServer extends AsyncDisposable {
  /** Without a slash at its end. */
  readonly url: string;
  /** Shuts the kit down, then closes the listener (KO-080). */
  close(): Promise<void>;
}

/** Serves a kit by itself, for programs that have no server of their own. */
export async function listen(
  kit: Pick<HttpEdge, "handle" | "shutdown">,
  { port = 5110, host = "127.0.0.1" }: KitListenOptions = {},
): Promise<ListeningServer> {
  const server = createServer(toNodeListener(kit));
  server.listen({ port, host, backlog });
  await once(server, "listening");
  // Only a server on a pipe has another kind of address.
  const { address, family, port: bound } = server.address() as AddressInfo;
  const name = family === "IPv6" ? `[${address}]` : address;
  let closed: Promise<void> | undefined;
  async function close(): Promise<void> {
    await kit.shutdown();
    const done = once(server, "close");
    server.close();
    server.closeIdleConnections();
    await done;
  }
  const closeOnce = async (): Promise<void> => (closed ??= close());
  return { url: `http://${name}:${bound}`, close: closeOnce, [Symbol.asyncDispose]: closeOnce };
}
