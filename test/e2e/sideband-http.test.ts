import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

import { afterAll, describe, expect, it } from "vitest";

import { settled } from "../support/fake-time.ts";
import {
  answered,
  continued,
  plainContext,
  plainSettings,
  requestFacts,
  responseFacts,
  startMockedEngine,
  startMockPingAuthorize,
} from "../support/mock-pingauthorize.ts";
import type { MockedEngine } from "../support/mock-pingauthorize.ts";
import { createServerAuthority } from "../support/server-authority.ts";

const authority = createServerAuthority();
afterAll(() => {
  authority[Symbol.dispose]();
});

/** A server that knows no HTTP. */
async function startRawServer(onConnection: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    onConnection(socket);
  });
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", () => listening.resolve());
  await listening.promise;
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      await promise;
    },
  };
}

const ask = ({ engine }: MockedEngine) => engine.evaluateRequest(requestFacts());

describe("the HTTP call to PingAuthorize", () => {
  it("[PA-054] [PA-055] [PA-056] [PA-057] [PA-058] [PA-059] [PA-060] is written exactly so, on both endpoints", async () => {
    await using mocked = await startMockedEngine({}, { mock: { basePath: "/policy" } });
    const { engine, mock } = mocked;
    const body = Buffer.from("größe");
    continued(await engine.evaluateRequest(requestFacts({ body, httpVersion: 2 })));
    answered(await engine.evaluateResponse(responseFacts(), plainContext));
    expect(mock.requests.map(({ method, path, httpVersion }) => [method, path, httpVersion])).toEqual([
      ["POST", "/policy/sideband/request", "1.1"],
      ["POST", "/policy/sideband/response", "1.1"],
    ]);
    for (const { rawHeaders, text } of mock.requests) {
      expect(rawHeaders).toEqual([
        "Host",
        `127.0.0.1:${mock.port}`,
        "Connection",
        "Keep-Alive",
        "Content-Type",
        "application/json",
        "User-Agent",
        "Kong/2.1.0",
        "Content-Length",
        String(Buffer.byteLength(text)),
        plainSettings.secret_header_name,
        plainSettings.shared_secret,
      ]);
    }
  });

  it.each(["", "/", "/a/", "/a//"])("[PA-054] has one slash between %j and the endpoint", async (path) => {
    const basePath = path.replace(/\/+$/u, "");
    await using mocked = await startMockedEngine({}, { mock: { basePath } });
    await using other = await startMockedEngine({
      service_url: `http://127.0.0.1:${mocked.mock.port}${path}`,
    });
    continued(await ask(other));
    expect(mocked.mock.requests[0]?.path).toBe(`${basePath}/sideband/request`);
  });

  it("[PA-056] names the default port of the scheme", async () => {
    const seen: string[] = [];
    const client = {
      post: async ({ headers }: { readonly headers: Readonly<Record<string, string>> }) => {
        seen.push(headers["Host"] ?? "");
        return { status: 200, headers: {}, body: Buffer.from("{}") };
      },
      close: () => {},
    };
    for (const service_url of ["http://pdp.example", "https://pdp.example/x", "https://pdp.example:8443"]) {
      await using mocked = await startMockedEngine({ service_url }, { surroundings: { client } });
      await ask(mocked);
    }
    expect(seen).toEqual(["pdp.example:80", "pdp.example:443", "pdp.example:8443"]);
  });

  it("[PA-061] uses a connection again", async () => {
    await using mocked = await startMockedEngine();
    for (let round = 0; round < 5; round++) continued(await ask(mocked));
    expect(mocked.mock.connections()).toBe(1);
  });

  it("[PA-061] keeps at most ten idle connections", async () => {
    await using mocked = await startMockedEngine();
    const { mock } = mocked;
    const gate = Promise.withResolvers<void>();
    const allHere = Promise.withResolvers<void>();
    mock.onRequest(async ({ payload }) => {
      if (mock.requests.length === 15) allHere.resolve();
      await gate.promise;
      return { json: payload };
    });
    const first = Array.from({ length: 15 }, () => ask(mocked));
    await allHere.promise;
    gate.resolve();
    await Promise.all(first);
    expect(mock.connections()).toBe(15);
    await settled();
    // Sixteen at once: ten find an idle connection, the others open new ones.
    const again = Promise.withResolvers<void>();
    const second = Promise.withResolvers<void>();
    mock.onRequest(async ({ payload }) => {
      if (mock.requests.length === 31) second.resolve();
      await again.promise;
      return { json: payload };
    });
    const rest = Array.from({ length: 16 }, () => ask(mocked));
    await second.promise;
    again.resolve();
    await Promise.all(rest);
    expect(mock.connections()).toBe(15 + 6);
  });

  it("[PA-061] closes a connection that was idle for connection_keepalive_ms", async () => {
    await using mocked = await startMockedEngine({ connection_keepalive_ms: 50 });
    const closed = Promise.withResolvers<void>();
    mocked.mock.onRequest(({ payload, onClose }) => {
      onClose(() => closed.resolve());
      return { json: payload };
    });
    continued(await ask(mocked));
    await closed.promise;
    continued(await ask(mocked));
    expect(mocked.mock.connections()).toBe(2);
  });

  it("[PA-063] is given up after connection_timeout_ms, and counts as a timeout", async () => {
    const timers: { readonly ms: number; readonly fire: () => void }[] = [];
    const setTimer = (ms: number, fire: () => void) => {
      timers.push({ ms, fire });
      return () => {};
    };
    await using mocked = await startMockedEngine({ connection_timeout_ms: 60 }, { surroundings: { setTimer } });
    mocked.mock.onRequest(() => {
      timers.at(-1)?.fire();
      return { fault: "hang" };
    });
    expect(answered(await ask(mocked)).answer.status).toBe(502);
    expect(timers.map(({ ms }) => ms)).toEqual([60]);
    expect(mocked.logs).toContainEqual(expect.objectContaining({ error: "no answer within 60 ms" }));
    expect(answered(await ask(mocked)).answer.status).toBe(502);
    expect(mocked.mock.requests).toHaveLength(1);
  });

  it("[PA-209] does not follow a redirect with the secret", async () => {
    await using elsewhere = await startMockPingAuthorize();
    await using mocked = await startMockedEngine({ fail_open: true, max_retries: 2, retry_backoff_ms: 1 });
    const location = `${elsewhere.url}/sideband/request`;
    mocked.mock.onRequest(() => ({ status: 307, headers: { location } }));
    expect(answered(await ask(mocked)).answer.status).toBe(502);
    expect(answered(await ask(mocked)).answer.status).toBe(502);
    expect(elsewhere.requests).toEqual([]);
    expect(mocked.mock.requests).toHaveLength(2);
  });

  it("[PX-11] is sent once more when a kept connection turns out to be closed", async () => {
    // A server that answers once on each connection and closes it when the next question comes.
    let connections = 0;
    await using server = await startRawServer((socket) => {
      connections++;
      let isUsed = false;
      socket.on("data", () => {
        if (isUsed) socket.destroy();
        else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}");
        isUsed = true;
      });
    });
    await using mocked = await startMockedEngine({ service_url: server.url });
    continued(await ask(mocked));
    continued(await ask(mocked));
    continued(await ask(mocked));
    expect(connections).toBe(3);
    expect(mocked.logs.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("[PX-11] is not sent again when the connection was new", async () => {
    await using mocked = await startMockedEngine();
    mocked.mock.onRequest(() => ({ fault: "reset" }));
    expect(answered(await ask(mocked)).answer.status).toBe(502);
    expect(mocked.mock.requests).toHaveLength(1);
  });

  it("[PA-110] fails when the answer ends too early", async () => {
    const answer = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}";
    await using server = await startRawServer((socket) => void socket.on("data", () => socket.end(answer)));
    await using mocked = await startMockedEngine({ service_url: server.url });
    expect(answered(await ask(mocked)).refusal).toMatchObject({ reason: "unavailable", isUndecided: true });
  });

  it("lets a call under way finish when it is closed, and keeps no connection then", async () => {
    await using mocked = await startMockedEngine();
    const { engine, mock } = mocked;
    const closed = Promise.withResolvers<void>();
    mock.onRequest(({ payload, onClose }) => {
      onClose(() => closed.resolve());
      engine.close();
      return { json: payload };
    });
    continued(await ask(mocked));
    await closed.promise;
    expect(mock.requests).toHaveLength(1);
  });

  it("is given up when nobody waits any more", async () => {
    await using mocked = await startMockedEngine();
    const controller = new AbortController();
    mocked.mock.onRequest(() => {
      controller.abort(new Error("gone"));
      return { fault: "hang" };
    });
    const outcome = mocked.engine.evaluateRequest(requestFacts(), { signal: controller.signal });
    await expect(outcome).rejects.toThrow("gone");
    mocked.mock.onRequest(({ payload }) => ({ json: payload }));
    continued(await ask(mocked));
  });
});

describe("https to PingAuthorize", () => {
  const tls = authority.issue("pingauthorize");

  it("[PA-062] refuses a certificate that nobody trusts", async () => {
    await using mocked = await startMockedEngine({}, { mock: { tls } });
    expect(answered(await ask(mocked)).answer.status).toBe(502);
    expect(mocked.mock.requests).toEqual([]);
  });

  it("[PA-062] accepts it when told not to look", async () => {
    await using mocked = await startMockedEngine({ verify_service_cert: false }, { mock: { tls } });
    continued(await ask(mocked));
    continued(await ask(mocked));
    expect(mocked.mock.requests).toHaveLength(2);
    expect(mocked.mock.connections()).toBe(1);
  });

  it("[PA-064] trusts an authority of its own, and shows a certificate", async () => {
    const client = authority.issue("headgate");
    const surroundings = { tls: { ca: authority.ca, ...client } };
    const mutual = { ...tls, ca: authority.ca, requestCert: true, rejectUnauthorized: true };
    await using mocked = await startMockedEngine({}, { mock: { tls: mutual }, surroundings });
    continued(await ask(mocked));
    expect(mocked.mock.requests[0]?.clientName).toBe("headgate");
  });
});
