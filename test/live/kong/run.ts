// Drives a real Kong with this checkout's plugin server:
//   KONG_LIVE_COMMAND=/usr/local/bin/kong node test/live/kong/run.ts
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { parse, stringify } from "yaml";
import {
  allowWith,
  changeResponse,
  denyRequest,
  startMockPingAuthorize,
} from "../../../src/policy/testing/mock-ping-authorize.ts";

const { KONG_LIVE_COMMAND: command } = process.env;
if (command === undefined) {
  console.error("Set KONG_LIVE_COMMAND to the kong program; see test/live/kong/README.md.");
  process.exit(2);
}

const root = resolve(import.meta.dirname, "../../..");
const prefix = mkdtempSync(join(tmpdir(), "headgate-kong-live-"));

const upstream = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    response.setHeader("x-internal", "1");
    response.setHeader("set-cookie", "session=secret");
    response.setHeader("content-type", "application/json");
    const { method, url, headers } = request;
    response.end(JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }));
  });
});
const upstreamPort = await listening(upstream);
await using mock = await startMockPingAuthorize({ secret: { header: "CLIENT-TOKEN", value: "live" } });
const proxyPort = await freePort();
const proxy = `http://127.0.0.1:${proxyPort}`;
// The launcher, not this Node: Kong's workers start it without PATH.
const server = join(root, "bin/headgate-kong");
const socket = join(prefix, "ping_authorize.sock");

writeFileSync(
  join(prefix, "kong.yaml"),
  stringify({
    _format_version: "3.0",
    services: [
      {
        name: "upstream",
        url: `http://127.0.0.1:${upstreamPort}`,
        routes: [{ name: "all", paths: ["/"], strip_path: false }],
        plugins: [
          {
            name: "idpartners-ping-authorize",
            config: {
              service_url: mock.url,
              shared_secret: "live",
              secret_header_name: "CLIENT-TOKEN",
              enable_mcp: true,
              mcp_jsonrpc_errors: true,
            },
          },
          parse(readFileSync(join(root, "examples/kong/guard.yaml"), "utf8")) as unknown,
        ],
      },
    ],
  }),
);
const env = {
  ...process.env,
  KONG_DATABASE: "off",
  KONG_DECLARATIVE_CONFIG: join(prefix, "kong.yaml"),
  KONG_PREFIX: prefix,
  KONG_PROXY_LISTEN: `127.0.0.1:${proxyPort}`,
  KONG_ADMIN_LISTEN: "off",
  KONG_NGINX_WORKER_PROCESSES: "2",
  KONG_PLUGINS: "bundled,idpartners-ping-authorize",
  KONG_PLUGINSERVER_NAMES: "ping_authorize",
  KONG_PLUGINSERVER_PING_AUTHORIZE_SOCKET: socket,
  KONG_PLUGINSERVER_PING_AUTHORIZE_QUERY_CMD: `${server} --query`,
  KONG_PLUGINSERVER_PING_AUTHORIZE_START_CMD: `${server} --socket ${socket}`,
};

try {
  execFileSync(command, ["start"], { env, stdio: "inherit" });
  await until(async () => (await fetch(proxy)).status === 200);

  await check("an allowed request goes through, and its response is changed", async () => {
    mock.onResponse(changeResponse(() => ({ headers: [{ "content-type": "application/json" }] })));
    const response = await fetch(`${proxy}/a%20b?x=1`);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("x-internal"), null);
    assert.match(String(mock.requests.at(-2)?.payload["url"]), /\/a%20b\?x=1$/u);
  });

  await check("a refusal reaches the client with its own status", async () => {
    mock.onRequest(denyRequest(401, "no", [{ "www-authenticate": "Bearer" }]));
    const response = await fetch(proxy);
    assert.deepEqual([response.status, await response.text()], [401, "no"]);
    assert.equal(response.headers.get("www-authenticate"), "Bearer");
  });

  await check("headers, path and body are changed, a large body is read", async () => {
    mock.onRequest(
      allowWith(({ payload }) => ({
        url: String(payload["url"]).replace("/old", "/new"),
        headers: [{ host: "changed" }, { "x-new": "1" }, { "x-new": "2" }],
        body: `${String(payload["body"]).length}`,
      })),
    );
    const response = await fetch(`${proxy}/old`, { method: "POST", body: "x".repeat(100_000) });
    const seen = (await response.json()) as { url: string; body: string; headers: Record<string, string> };
    assert.deepEqual([seen.url, seen.body, seen.headers["x-new"]], ["/new", "100000", "1, 2"]);
  });

  await check("concurrent requests stay apart", async () => {
    mock.onRequest(allowWith(({ payload }) => ({ body: payload["body"] })));
    const bodies = Array.from({ length: 200 }, (_, index) => `body ${index}`);
    const seen = await Promise.all(
      bodies.map(async (body) => {
        const response = await fetch(proxy, { method: "POST", body });
        return ((await response.json()) as { body: string }).body;
      }),
    );
    assert.deepEqual(seen, bodies);
  });

  await check("a body that only a lenient server reads as MCP is refused", async () => {
    const call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_user"}}';
    const post = (body: string | Uint8Array<ArrayBuffer>, headers = {}): Promise<Response> =>
      fetch(proxy, { method: "POST", body, headers: { "content-type": "application/json", ...headers } });
    assert.equal((await post(call)).status, 200);
    for (const [body, headers] of [
      [Buffer.from(`\uFEFF${call}`), {}],
      [Buffer.from(call, "utf16le"), {}],
      [gzipSync(call), { "content-encoding": "gzip" }],
      [call.replace("method", "Method"), {}],
    ] as const) {
      const response = await post(new Uint8Array(Buffer.from(body)), headers);
      assert.deepEqual([response.status, response.headers.get("set-cookie")], [400, null]);
    }
  });

  await check("an upgrade is refused, and several challenges stay", async () => {
    const upgrade = await raw("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert.match(upgrade, /^HTTP\/1\.1 400 /u);
    assert.doesNotMatch(upgrade, /secret/u);
    mock.onRequest(denyRequest(401, "", [{ "www-authenticate": "Bearer" }, { "www-authenticate": "DPoP" }]));
    assert.equal((await fetch(proxy)).headers.get("www-authenticate"), "Bearer, DPoP");
    mock.onRequest(allowWith(() => ({})));
  });

  await check("a refusal in the response phase has nothing of the upstream's", async () => {
    mock.onResponse(() => ({ status: 500 }));
    const response = await fetch(proxy);
    assert.deepEqual(
      [response.status, response.headers.get("set-cookie"), response.headers.get("x-internal")],
      [502, null, null],
    );
    mock.onResponse(changeResponse(() => ({})));
    // The breaker is open for half a minute after a failure.
    await until(async () => (await fetch(proxy)).status === 200, 60_000);
  });

  await check("the guard refuses while the plugin server is dead, and not when it is back", async () => {
    const log = readFileSync(join(prefix, "logs/error.log"), "utf8");
    const pid = [...log.matchAll(/\[pluginserver\] started, pid (?<pid>\d+)/gu)].at(-1)?.groups?.["pid"];
    process.kill(Number(pid), "SIGKILL");
    assert.equal((await fetch(proxy)).status, 503);
    await until(async () => (await fetch(proxy)).status === 200);
  });
} finally {
  execFileSync(command, ["stop"], { env, stdio: "inherit" });
  upstream.closeAllConnections();
  upstream.close();
  rmSync(prefix, { recursive: true, force: true });
}

async function check(title: string, body: () => Promise<void>): Promise<void> {
  try {
    await body();
    console.log(`ok   ${title}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAIL ${title}\n${String(error)}`);
  }
}

/** Asks again until the answer is yes; a real Kong takes its time. */
async function until(question: () => Promise<boolean>, limitMs = 20_000): Promise<void> {
  for (let left = limitMs / 200; left > 0; left--) {
    if (await question().catch(() => false)) return;
    await sleep(200);
  }
  throw new Error(`it did not come about in ${limitMs / 1000} seconds`);
}

/** Sends bytes to Kong and answers what came back within a second: `fetch` sends no upgrades. */
async function raw(request: string): Promise<string> {
  const client = connect(proxyPort, "127.0.0.1");
  client.write(request);
  let text = "";
  client.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  await sleep(1000);
  client.destroy();
  return text;
}

async function listening(httpServer: Server): Promise<number> {
  await new Promise<void>((done) => {
    httpServer.listen(0, "127.0.0.1", done);
  });
  return (httpServer.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const probe = createServer();
  const port = await listening(probe);
  await new Promise((done) => {
    probe.close(done);
  });
  return port;
}
