import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createTestContext } from "../../../test/support/gateway-context.ts";
import { anonymous } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import type { RouteAuthentication } from "./route-authentication.ts";
import {
  type AuthenticatedRoute,
  createHttpRouter,
  type HttpRouter,
  type RouteHandler,
  type RoutingTable,
} from "./router.ts";

/** Says which endpoint served the request, and for whom. */
function endpoint(name: string): RouteHandler {
  return (_request, response, route, { principal, isLate }) => {
    response.end(JSON.stringify({ endpoint: name, route: route.name, principal: principal.kind, isLate }));
  };
}

function routeNamed(name: string, more: Partial<AuthenticatedRoute> = {}): AuthenticatedRoute {
  // Only these members are used.
  return {
    name,
    route: { name } as Route,
    prefixes: [`/${name}`],
    cors: { origins: [] },
    passThrough: undefined,
    authentication: { authenticate: () => ({ ok: true, principal: anonymous }) } as unknown as RouteAuthentication,
    ...more,
  } as unknown as AuthenticatedRoute;
}

const locked = routeNamed("locked", {
  authentication: {
    authenticate: async () => ({
      ok: false,
      error: new GatewayError("unauthenticated", "credentials are required"),
      challenge: 'Bearer error="missing"',
    }),
  } as unknown as RouteAuthentication,
});

function tableOf(changes: Partial<RoutingTable> = {}): RoutingTable {
  return {
    access: { isLoopback: true, allowedHosts: [], allowedOrigins: [] },
    corsOrigins: [],
    trustedProxies: [],
    routes: [routeNamed("files"), locked],
    draining: [],
    wellKnown: new Map([["/.well-known/about", (_request, response) => void response.end("about")]]),
    ...changes,
  };
}

let gateway: GatewayContext;
let router: HttpRouter;
let overload: GatewayError | undefined;
let received: string[] = [];
let serveMcp: RouteHandler;

const server = createServer((request, response) => router.handle(request, response));

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  gateway = createTestContext();
  overload = undefined;
  received = [];
  serveMcp = endpoint("mcp");
  router = createHttpRouter(
    gateway,
    {
      streamableHttp: (...served) => serveMcp(...served),
      sseStream: endpoint("sse"),
      sseMessages: endpoint("messages"),
      extra: (path) => (path === "/admin" ? (_request, response) => void response.end("admin") : undefined),
      receiving: {
        size: 0,
        enter: (caller) => {
          received.push(`enter ${caller}`);
          return overload;
        },
        leave: (caller) => {
          received.push(`leave ${caller}`);
        },
      },
      endsConnections: () => gateway.openWork.isClosed,
    },
    tableOf(),
  );
});

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Not `fetch`, which sets Host itself. Headers are a flat list of names and values. */
function ask(method: string, path: string, headers: readonly string[] = []): Promise<Answer> {
  const { port } = server.address() as AddressInfo;
  const host = headers.some((name) => name.toLowerCase() === "host") ? [] : ["host", `127.0.0.1:${port}`];
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ port, method, path, headers: [...host, ...headers], agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("error", reject);
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on("error", reject);
    sent.end(method === "POST" ? "{}" : undefined);
  });
}

describe("the HTTP router", () => {
  it.each([
    ["POST", "/files/mcp", "mcp"],
    ["GET", "/files/mcp?x=1", "mcp"],
    ["GET", "/files/sse", "sse"],
    ["POST", "/files/messages?sessionId=1", "messages"],
  ])("takes %s %s to its endpoint", async (method, path, name) => {
    const { status, text } = await ask(method, path);
    expect(status).toBe(200);
    expect(JSON.parse(text)).toEqual({ endpoint: name, route: "files", principal: "anonymous", isLate: false });
  });

  it.each([
    ["the health check", "/healthz", "ok\n"],
    ["what is not a route's", "/admin", "admin"],
    ["metadata", "/.well-known/about", "about"],
  ])("serves %s beside the routes", async (_what, path, text) => {
    expect(await ask("GET", path)).toMatchObject({ status: 200, text });
  });

  it("names the endpoints that the caller may use, at the root and where nothing is", async () => {
    expect(await ask("GET", "/")).toMatchObject({ status: 200, text: "headgate: MCP endpoints are /files/mcp\n" });
    const nowhere = await ask("GET", "/nowhere");
    expect(nowhere).toMatchObject({ status: 404, text: "nothing is served here; MCP endpoints are /files/mcp\n" });
  });

  it("refuses a caller that does not authenticate, with the challenge", async () => {
    const { status, headers, text } = await ask("POST", "/locked/mcp");
    expect({ status, challenge: headers["www-authenticate"] }).toEqual({
      status: 401,
      challenge: 'Bearer error="missing"',
    });
    expect(text).toContain("credentials are required");
    expect(received).toEqual([]);
  });

  it.each<[string, string[], number]>([
    ["another host name", ["host", "evil.example"], 403],
    ["two Host headers", ["host", "127.0.0.1", "host", "evil.example"], 400],
    ["another origin", ["origin", "https://evil.example"], 403],
  ])("refuses %s before anything is served", async (_what, headers, status) => {
    const answer = await ask("POST", "/files/mcp", headers);
    expect(answer.status).toBe(status);
    expect(answer.text).not.toContain("endpoint");
  });

  it("shows metadata to pages of any origin", async () => {
    expect(await ask("GET", "/.well-known/about", ["origin", "https://page.example"])).toMatchObject({ status: 200 });
  });

  it("counts the body of a POST until it is received, and refuses one too many", async () => {
    await ask("POST", "/files/mcp");
    await expect.poll(() => received.map((text) => text.split(" ")[0])).toEqual(["enter", "leave"]);
    overload = new GatewayError("overloaded", "too many", { details: { retryAfter: 1 } });
    expect(await ask("POST", "/files/mcp")).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
  });

  it.each<[what: string, handler: RouteHandler, status: number | undefined]>([
    [
      "throws",
      () => {
        throw new Error("a bug");
      },
      500,
    ],
    ["rejects", async () => Promise.reject(new GatewayError("overloaded", "no room")), 503],
    [
      "fails after it began to answer",
      async (_request, response) => {
        response.writeHead(200).write("{");
        throw new Error("a bug");
      },
      undefined,
    ],
  ])("ends a request whose handler %s, and no other", async (_what, handler, status) => {
    const slow = routeNamed("slow", {
      authentication: {
        authenticate: async () => ({ ok: true, principal: anonymous }),
      } as unknown as RouteAuthentication,
    });
    router.use(tableOf({ routes: [routeNamed("files"), slow] }));
    for (const path of ["/files/mcp", "/slow/mcp"]) {
      serveMcp = handler;
      const answered = ask("POST", path);
      if (status === undefined) await expect(answered).rejects.toThrow(/aborted|socket hang up/u);
      else expect(await answered).toMatchObject({ status });
      serveMcp = endpoint("mcp");
      expect(await ask("POST", path)).toMatchObject({ status: 200 });
    }
  });

  it("serves a draining route to clients that have a session, and begins nothing new on it", async () => {
    router.use(tableOf({ routes: [], draining: [routeNamed("files")] }));
    expect(await ask("POST", "/files/mcp", ["mcp-session-id", "s"])).toMatchObject({ status: 200 });
    expect(await ask("POST", "/files/messages")).toMatchObject({ status: 200 });
    expect(await ask("POST", "/files/mcp")).toMatchObject({ status: 404, text: "nothing is served here\n" });
    expect(await ask("GET", "/files/sse")).toMatchObject({ status: 404 });
  });

  it("lets a configured route take over the paths of a draining one", async () => {
    const successor = routeNamed("files", { route: { name: "successor" } as Route });
    router.use(tableOf({ routes: [successor], draining: [routeNamed("files")] }));
    expect(JSON.parse((await ask("POST", "/files/mcp")).text)).toMatchObject({ route: "successor" });
  });

  it("goes on with conversations while it shuts down, opens none, and closes the connection", async () => {
    gateway.openWork.close();
    const late = await ask("POST", "/files/mcp");
    expect(late.headers["connection"]).toBe("close");
    expect(JSON.parse(late.text)).toMatchObject({ isLate: true });
    expect(await ask("GET", "/files/sse")).toMatchObject({ status: 503 });
  });

  it("serves no peers where the gateway has none", async () => {
    const peers = createServer((request, response) => router.handlePeer(request, response));
    await new Promise<void>((resolve) => {
      peers.listen(0, "127.0.0.1", resolve);
    });
    const response = await fetch(`http://127.0.0.1:${(peers.address() as AddressInfo).port}/files/mcp`);
    peers.close();
    expect(response.status).toBe(404);
  });
});
