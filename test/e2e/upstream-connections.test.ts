import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { ConnectionPool } from "../../src/transports/streamable-http/connection-pool.ts";
import { freePort } from "../support/free-port.ts";

/** A server that counts its connections, and a pool of connections to it. */
async function start(listener: RequestListener) {
  const server = createServer(listener);
  let connections = 0;
  server.on("connection", () => (connections += 1));
  const listen = async (port: number): Promise<void> => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
  const port = await freePort();
  await listen(port);
  const pool = new ConnectionPool(`http://127.0.0.1:${port}`, { connectMs: 2000, idleMs: 60_000, tls: {} });
  return {
    pool,
    connections: () => connections,
    stop: close,
    startAgain: () => listen(port),
    [Symbol.asyncDispose]: async () => {
      await pool.destroy();
      if (server.listening) await close();
    },
  };
}

/** Sends a request; resolves with the body of its answer. */
function ask(pool: ConnectionPool, headers: Record<string, string> = {}): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let body = "";
  pool.dispatch(
    { path: "/", method: "POST", headers, body: "{}" },
    {
      onRequestStart: () => {},
      onResponseStart: () => {},
      onResponseData: (_controller, chunk) => {
        body += chunk.toString();
      },
      onResponseEnd: () => {
        // The connection is free again one turn later.
        setImmediate(() => setImmediate(resolve, body));
      },
      onResponseError: (_controller, error) => {
        reject(error);
      },
    },
  );
  return promise;
}

describe("the connections to an upstream", () => {
  it("are used again one after the other", async () => {
    await using rig = await start((_request, response) => response.end("well"));
    for (let turn = 0; turn < 5; turn += 1) expect(await ask(rig.pool)).toBe("well");
    expect(rig.connections()).toBe(1);
  });

  it("are one for each answer that has not ended, and no call waits for another", async () => {
    const open: ServerResponse[] = [];
    await using rig = await start((_request, response) => {
      open.push(response);
      if (open.length === 3) for (const each of open) each.end(`one of ${open.length}`);
    });
    const answers = await Promise.all([ask(rig.pool), ask(rig.pool), ask(rig.pool)]);
    expect(answers).toEqual(["one of 3", "one of 3", "one of 3"]);
    expect(rig.connections()).toBe(3);
    const another = ask(rig.pool);
    await expect.poll(() => open.length).toBe(4);
    open[3]?.end("late");
    expect(await another).toBe("late");
    expect(rig.connections()).toBe(3);
  });

  it("are made anew after the upstream was away", async () => {
    await using rig = await start((_request, response) => response.end("well"));
    expect(await ask(rig.pool)).toBe("well");
    await rig.stop();
    await expect(ask(rig.pool)).rejects.toMatchObject({ code: /^(ECONNREFUSED|UND_ERR_SOCKET)$/u });
    await expect(ask(rig.pool)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await rig.startAgain();
    expect(await ask(rig.pool)).toBe("well");
    expect(await ask(rig.pool)).toBe("well");
    expect(rig.connections()).toBe(2);
  });

  it("are forgotten when either side has ended them", async () => {
    const open: ServerResponse[] = [];
    await using rig = await start((_request, response) => open.push(response));
    const answers = [ask(rig.pool), ask(rig.pool), ask(rig.pool)];
    await expect.poll(() => open.length).toBe(3);
    const [idle, broken, closing] = open;
    broken?.destroy();
    closing?.writeHead(200, { connection: "close" }).end("bye");
    idle?.end("well");
    const outcomes = await Promise.allSettled(answers);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "fulfilled", "rejected"]);
    await expect.poll(() => rig.pool.size).toBe(1);
    await rig.stop();
    await expect.poll(() => rig.pool.size).toBe(0);
    await rig.startAgain();
    const another = ask(rig.pool);
    await expect.poll(() => open.length).toBe(4);
    open[3]?.end("again");
    expect(await another).toBe("again");
  });

  it("are none for what cannot be sent", async () => {
    await using rig = await start((_request, response) => response.end("well"));
    await expect(ask(rig.pool, { broken: "a\nb" })).rejects.toMatchObject({ code: "UND_ERR_INVALID_ARG" });
    expect(rig.pool.size).toBe(0);
    expect(await ask(rig.pool)).toBe("well");
  });

  it("end with all calls on them, and later clients get an error", async () => {
    let hasArrived = false;
    await using rig = await start(() => (hasArrived = true));
    const told = ask(rig.pool).catch((error: unknown) => error);
    await expect.poll(() => hasArrived).toBe(true);
    await rig.pool.destroy();
    expect(await told).toMatchObject({ code: "UND_ERR_DESTROYED" });
    await expect(ask(rig.pool)).rejects.toMatchObject({ code: "UND_ERR_DESTROYED" });
  });
});
