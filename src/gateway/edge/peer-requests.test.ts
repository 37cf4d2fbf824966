import { EventEmitter, once } from "node:events";
import { Agent, createServer, type IncomingMessage, request as httpRequest } from "node:http";
import { type AddressInfo, Socket } from "node:net";

import { describe, expect, it } from "vitest";

import { principalNamed } from "../../../test/support/principals.ts";
import type { SubjectTokens } from "../../auth/upstream-credentials.ts";
import { createSeals } from "../../lib/keys/sealing.ts";
import { createPeerCheck, type ForwardedRequest, isBodyOf, PeerUnreachableError, sendToPeer } from "./peer-requests.ts";

const seal = createSeals([Buffer.alloc(32, 1)]).peer;
const alice = { ...principalNamed("alice"), scopes: new Set(["a", "b"]) };
const body = Buffer.from('{"jsonrpc":"2.0"}');

/** A gateway that knows the tokens of some callers. */
function gatewayWith(sealing = seal, subjectTokens: SubjectTokens = new WeakMap()) {
  return { node: "0000000a", seal: sealing, agent: new Agent(), subjectTokens };
}

/** What a peer receives of a request that a client sent to another gateway. */
async function handedOver(
  at: number,
  sender = gatewayWith(),
  how: Pick<ForwardedRequest, "isAnswer" | "isLeaving"> = {},
): Promise<IncomingMessage> {
  const received = Promise.withResolvers<IncomingMessage>();
  await using peer = await listening((request) => {
    received.resolve(request);
  });
  await using edge = await listening((request) => {
    const credentialHeaders = new Set(["x-api-key"]);
    const forwarded = { request, body, principal: alice, address: "10.0.0.9", credentialHeaders, ...how };
    const remote = { node: "0000000b", url: peer.url, gone: new AbortController().signal };
    void sendToPeer(sender, remote, forwarded, () => at).catch(() => {});
  });
  const headers = {
    "mcp-session-id": "s",
    "x-list": ["a", "b"],
    authorization: "Bearer t",
    cookie: "c=1",
    "X-Api-Key": "k",
    "headgate-peer": "mine",
  };
  const client = httpRequest(`${edge.url}/mcp`, { method: "POST", headers });
  client.on("error", () => {});
  client.end("x");
  const { method, url, headers: got } = await received.promise;
  client.destroy();
  // Only these members are read.
  return { method, url, headers: got } as unknown as IncomingMessage;
}

async function listening(listener: (request: IncomingMessage) => void) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The request with other members, and with headers changed or left out. */
function changed(
  { method, url, headers }: IncomingMessage,
  change: {
    readonly method?: string;
    readonly url?: string;
    readonly headers?: Readonly<Record<string, string | null>>;
  },
): IncomingMessage {
  const merged = Object.entries({ ...headers, ...change.headers }).filter(([, value]) => value !== null);
  return { method, url, ...change, headers: Object.fromEntries(merged) } as unknown as IncomingMessage;
}

describe("a request that a peer handed over", () => {
  it("is of the caller that the peer has authenticated, with that body, and without the client's credentials", async () => {
    const request = await handedOver(1000);
    for (const name of ["authorization", "cookie", "x-api-key"]) expect(request.headers).not.toHaveProperty(name);
    const caller = createPeerCheck(gatewayWith(), () => 1500)(request);
    expect(caller).toMatchObject({
      principal: { id: alice.id, scopes: new Set(["a", "b"]) },
      address: "10.0.0.9",
      isAnswer: false,
    });
    expect([isBodyOf(caller, body), isBodyOf(caller, Buffer.from("{}"))]).toEqual([true, false]);
  });

  it("has the token of its caller, sealed, where servers get another in exchange for it", async () => {
    const request = await handedOver(1000, gatewayWith(seal, new WeakMap([[alice, "secret-token"]])));
    expect(JSON.stringify(request.headers)).not.toContain("secret-token");
    const subjectTokens: SubjectTokens = new WeakMap();
    const { principal } = createPeerCheck({ seal, subjectTokens }, () => 1000)(request);
    expect(subjectTokens.get(principal)).toBe("secret-token");
  });

  it.each([
    [{}, { isAnswer: false, leaving: undefined }],
    [{ isAnswer: true }, { isAnswer: true, leaving: undefined }],
    [{ isLeaving: true }, { isAnswer: false, leaving: "0000000a" }],
  ])("says whether it is an answer, and whether its gateway shuts down: %j", async (how, vouched) => {
    const request = await handedOver(1000, gatewayWith(), how);
    expect(createPeerCheck(gatewayWith(), () => 1000)(request)).toMatchObject(vouched);
  });

  it("is served once", async () => {
    const request = await handedOver(1000);
    const check = createPeerCheck(gatewayWith(), () => 1000);
    check(request);
    expect(() => check(request)).toThrow(/served before/u);
  });

  it.each<[string, Parameters<typeof changed>[1]]>([
    ["without a seal", { headers: { "headgate-peer": null } }],
    ["with a seal of the client", { headers: { "headgate-peer": "mine" } }],
    ["with another session", { headers: { "mcp-session-id": "other" } }],
    ["without its session", { headers: { "mcp-session-id": null } }],
    ["with a header more", { headers: { "x-user": "root" } }],
    ["at another path", { url: "/other/mcp" }],
    ["with another method", { method: "DELETE" }],
  ])("is refused %s", async (_why, change) => {
    const request = changed(await handedOver(1000), change);
    expect(() => createPeerCheck(gatewayWith(), () => 1000)(request)).toThrow(/peer/u);
  });

  it.each([
    ["by a gateway with another secret", createSeals([Buffer.alloc(32, 2)]).peer, 1000],
    ["with a seal of another purpose", createSeals([Buffer.alloc(32, 1)]).session, 1000],
    ["long ago", seal, 1000 - 61_000],
    ["in the future", seal, 1000 + 61_000],
  ])("is refused if it was sealed %s", async (_why, sealing, at) => {
    const request = await handedOver(at, gatewayWith(sealing));
    expect(() => createPeerCheck(gatewayWith(), () => 1000)(request)).toThrow(/peer/u);
  });
});

describe("a peer that holds its lease and cannot be reached from here", () => {
  it("is given up soon, as one that has not received the request", async () => {
    // As where a firewall drops what is sent: no connection, and no refusal.
    class SilentAgent extends Agent {
      override createConnection(): Socket {
        return Object.assign(new Socket(), { connecting: true });
      }
    }
    // Only these members are read.
    const request = {
      method: "POST",
      url: "/mcp",
      headers: {},
      socket: new EventEmitter(),
    } as unknown as IncomingMessage;
    const forwarded = { request, body, principal: alice, address: undefined, credentialHeaders: new Set<string>() };
    const peer = { node: "0000000b", url: "http://peer.example", gone: new AbortController().signal };
    const sent = sendToPeer({ ...gatewayWith(), agent: new SilentAgent() }, peer, forwarded, () => 0);
    await expect(sent).rejects.toThrow("no connection within");
    await expect(sent).rejects.toBeInstanceOf(PeerUnreachableError);
  });
});
