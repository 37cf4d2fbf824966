import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mcpFixtures } from "../fixtures/mcp/messages.ts";
import { createFakeKong } from "../support/fake-kong/fake-kong.ts";
import { instantEngine, startLocalServer, unusedSettings } from "../support/fake-kong/local-server.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import { denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

/** The lines of the plugin server that are about one decision point, once one of them fits. */
async function linesAbout(url: string, pattern: RegExp): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const about = (): string[] =>
    server
      .output()
      .split("\n")
      .filter((line) => line.includes(`"service_url":"${url}"`));
  await expect.poll(() => about().some((line) => pattern.test(line))).toBe(true);
  return about().map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("what is logged, and where", () => {
  it("[PA-133] is one JSON object a line with the same members, whatever it is about", async () => {
    const broken = () => Promise.reject(new Error("a bug of ours"));
    const logged: string[] = [];
    for (const engine of [{ evaluateRequest: broken }, { evaluateResponse: broken }, {}]) {
      let passedMs = 0;
      const clock = { now: () => performance.now() + passedMs, wall: () => Date.now() };
      await using local = await startLocalServer({ createEngine: instantEngine(engine), clock });
      const config = {
        ...unusedSettings,
        max_body_bytes: 10,
        max_retries: 100,
        $refs: { shared_secret: "{vault://env/none}" },
      };
      using kong = createFakeKong({ socket: local.socket, plugin: local.plugin, config });
      const first = await kong.send({});
      passedMs = 61_000;
      const passages = [
        first,
        await kong.send({}),
        await kong.send({ method: "POST", body: "longer than ten" }),
        await kong.send({}, { body: "longer than ten" }),
        await kong.send({ headers: { upgrade: "websocket" } }),
        await kong.send({}, () => ({ body: "" })),
      ];
      await local.stop();
      logged.push(...passages.flatMap(({ log }) => log.map(({ text }) => text)), ...local.lines);
    }
    await using taken = await startPackedServer({ accessOnly: true });
    await using rig = await createKongRig(taken, { connection_timeout_ms: 60_000 });
    await rig.mock.close();
    logged.push(...(await rig.send()).log.map(({ text }) => text));
    // Another process takes the socket.
    await taken.start();
    logged.push(
      ...taken
        .output()
        .split("\n")
        .filter((line) => line !== ""),
    );
    for (const line of logged) {
      expect([line, JSON.parse(line)]).toEqual([
        line,
        expect.objectContaining({
          plugin: "idpartners-ping-authorize",
          phase: expect.stringMatching(/^(?:access|response|server)$/u) as unknown,
          service_url: expect.any(String) as unknown,
          level: expect.stringMatching(/^(?:debug|info|warn|error)$/u) as unknown,
          msg: expect.any(String) as unknown,
        }),
      ]);
    }
    for (const words of [
      "Unexpected error",
      "vault",
      "max_body_bytes",
      "Upgrade",
      "unreachable",
      "--access-only",
      "Kong then cancels them",
      "taking the socket",
      "stopped",
    ]) {
      expect([words, logged.some((line) => line.includes(words))]).toEqual([words, true]);
    }
  });

  it("[PA-133] [PA-138] [PA-215] a decision point that cannot be reached is an error in Kong's own log, one JSON object", async () => {
    await using rig = await createKongRig(server);
    await rig.mock.close();
    const { log } = await rig.send();
    const entries = log.map(({ level, text }) => ({ kong: level, ...(JSON.parse(text) as object) }));
    expect(entries).toEqual([
      expect.objectContaining({
        kong: "err",
        plugin: "idpartners-ping-authorize",
        phase: "access",
        service_url: rig.mock.url,
        level: "error",
        msg: "PingAuthorize unreachable",
        error: expect.stringContaining("ECONNREFUSED") as unknown,
      }),
    ]);
  });

  it("[PA-138] [PA-130] warnings reach Kong's own log in both phases", async () => {
    await using rig = await createKongRig(server, { fail_open: true, circuit_breaker_enabled: false });
    rig.mock.onRequest(() => ({ status: 500 }));
    rig.mock.onResponse(() => ({ status: 500 }));
    const { log } = await rig.send();
    const warned = log.filter(({ level }) => level === "warn").map(({ text }) => JSON.parse(text) as object);
    expect(warned).toEqual([
      expect.objectContaining({ phase: "access" }),
      expect.objectContaining({ phase: "response" }),
    ]);
  });

  it("[PA-215] a refusal by the policy is told at info level, with its status", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(denyRequest(403));
    const { log } = await rig.send();
    expect(log).toEqual([]);
    const lines = await linesAbout(rig.mock.url, /denied by policy/u);
    expect(lines.at(-1)).toMatchObject({ level: "info", phase: "access", status_code: 403 });
  });

  it("[PA-025] [PA-134] [PA-135] [PA-136] [PA-137] [PA-215] payloads are told for debugging only, without secrets and cut", async () => {
    await using quiet = await createKongRig(server);
    await quiet.send({ body: "quiet-body" });
    await using rig = await createKongRig(server, {
      enable_debug_logging: true,
      debug_body_max_bytes: 8,
      redact_headers: ["Authorization", "x-up"],
    });
    await rig.send(
      {
        body: "12345678-rest",
        headers: { authorization: "Bearer t0ken", "client-token": "s3cret-value", accept: "a/b" },
      },
      { headers: { "x-up": "hidden" }, body: "12345678" },
    );
    const lines = await linesAbout(rig.mock.url, /"phase":"response".*"path"/u);
    const text = JSON.stringify(lines);
    expect(text).toContain("12345678... [truncated, 13 bytes]");
    expect(text).toContain("a/b");
    for (const secret of ["t0ken", "s3cret-value", "hidden", "-rest"]) expect(text).not.toContain(secret);
    expect(lines.filter(({ path }) => path !== undefined)).toMatchObject([
      { level: "debug", path: "/sideband/request" },
      { level: "debug", path: "/sideband/response" },
    ]);
    expect(server.output()).not.toContain("quiet-body");
  });

  it("[PA-191] what MCP asks for is told at info level, with debugging on", async () => {
    await using rig = await createKongRig(server, {
      enable_mcp: true,
      enable_debug_logging: true,
      debug_body_max_bytes: 5,
    });
    await rig.send({ method: "POST", body: mcpFixtures.toolsCall });
    const lines = await linesAbout(rig.mock.url, /"traffic_type":"mcp"/u);
    expect(lines.find(({ level, mcp_method: method }) => level === "info" && method !== undefined)).toMatchObject({
      mcp_method: "tools/call",
      mcp_tool_name: "get_weather",
      traffic_type: "mcp",
    });
    expect(JSON.stringify(lines)).not.toContain("London");
  });
});
