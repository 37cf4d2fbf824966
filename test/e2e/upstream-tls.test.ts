import { readFileSync } from "node:fs";
import { once } from "node:events";
import { createServer as createSecureServer } from "node:https";
import { createServer } from "node:http";
import type { AddressInfo, Server } from "node:net";

import { describe, expect, it } from "vitest";

import { createCertificate } from "../support/certificate.ts";
import { freePort } from "../support/free-port.ts";
import { handshake } from "../support/legacy-session.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { post } from "../support/raw-http.ts";
import { createToolServer } from "../support/tool-server.ts";

async function portOf(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // Only a server on a pipe has another kind of address.
  return (server.address() as AddressInfo).port;
}

/** An upstream with TLS that no connection can be made to. */
const failures: Readonly<Record<string, (opened: DisposableStack) => Promise<string>>> = {
  "nobody listens": async () => `127.0.0.1:${await freePort()}`,
  "its name is unknown": async () => "name.invalid",
  "it does not speak TLS": async (opened) => {
    const server = opened.adopt(createServer(), (one) => one.close());
    return `127.0.0.1:${await portOf(server)}`;
  },
  "nobody vouches for its certificate": async (opened) => {
    const { certFile, keyFile } = opened.use(createCertificate("nobody"));
    const options = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
    const server = opened.adopt(createSecureServer(options), (one) => one.close());
    return `127.0.0.1:${await portOf(server)}`;
  },
};

describe("an upstream with TLS that cannot be reached", () => {
  it.each(Object.entries(failures))("%s: its callers are told, and the gateway goes on", async (_why, place) => {
    using opened = new DisposableStack();
    const url = `https://${await place(opened)}/mcp`;
    await using gateway = await openGateway({
      routes: {
        alone: { upstream: { url } },
        among: { upstreams: { one: { url }, two: { server: () => createToolServer({ name: "two" }) } } },
      },
    });
    const initialize = async (route: string) =>
      (await post(`${gateway.origin}/${route}/mcp`, handshake("2025-11-25"))).text;
    for (const _ of [1, 2]) {
      expect(await initialize("alone")).toContain("upstream_unreachable");
      expect(await initialize("among")).toContain("protocolVersion");
      const modern = await postModern(`${gateway.origin}/alone/mcp`, modernRequest(1, "tools/list"));
      expect(modern.text).toContain("upstream_unreachable");
    }
  });
});
