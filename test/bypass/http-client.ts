import { once } from "node:events";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";

import { openSession } from "../support/legacy-session.ts";
import type { LocalGateway } from "../support/local-gateway.ts";
import type { HttpFacts } from "./http.ts";
import { closed } from "./vault.ts";

/** Writes bytes to the gateway and waits until it has said all that it has to say to them. */
export async function sendRaw({ origin }: LocalGateway, bytes: Uint8Array, idleMs = 300): Promise<string> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  // Some attempts leave the gateway waiting for more, and some open a stream.
  socket.setTimeout(idleMs, () => socket.destroy());
  socket.on("error", () => {});
  socket.write(bytes);
  const said = await buffer(socket).catch(() => Buffer.alloc(0));
  return said.toString();
}

/** What attempts may use of a client of this era that is connected properly. */
export async function factsOf({ origin, url }: LocalGateway, era: HttpFacts["era"]): Promise<HttpFacts> {
  const { host } = new URL(origin);
  const modern = {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": closed.tool,
  };
  return { era, host, headers: era === "modern" ? modern : (await openSession(url)).headers };
}
