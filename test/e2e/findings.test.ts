import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { traffic } from "../../src/cli/traffic/traffic.ts";
import { diagnosticTable } from "../../src/protocol/diagnostics.ts";
import type { ExchangeRecord, Frame } from "../../src/recorder/contract.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { bin, type Folder, headgate, temporaryFolder } from "../support/capture-file.ts";
import { startConfigured } from "../support/configured-gateway.ts";
import { eventually } from "../support/eventually.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { type RunningGateway, startGateway } from "../support/gateway.ts";
import { handshake, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { startProcess } from "../support/process.ts";
import {
  cancel,
  commit,
  faultyLegacyServer,
  faultyModernServer,
  malformedBodies,
  messageFaults,
  pendingLimit,
} from "../support/message-faults.ts";
import { exchange, post } from "../support/raw-http.ts";

const validationServer = resolve(import.meta.dirname, "../fixtures/validation-server.mjs");
const modes = ["enforce", "observe"] as const;
/** Everything is checked and nothing refused, so that every message is seen on both sides. */
const noted = { method: "warn", schema: "off", semantic: "warn" };

async function startRoute(folder: Folder, url: string, mode: "enforce" | "observe"): Promise<RunningGateway> {
  const config = {
    listen: { port: 0 },
    admin: { port: 0 },
    log: { level: "debug", format: "json" },
    record: { file: folder.at("traffic.sqlite") },
    routes: { files: { upstream: { url, transport: "streamable-http" }, ...(mode === "observe" ? { mode } : {}) } },
  };
  const gateway = await startGateway(["run", "--config", folder.write("headgate.json", JSON.stringify(config))]);
  return { ...gateway, url: `${gateway.origin}/files/mcp` };
}

async function metricsOf(gateway: RunningGateway): Promise<string> {
  const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
  return (await exchange(`${admin}/metrics`)).text;
}

function jsonLines<Line>(text: string): Line[] {
  return text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Line] : []));
}

/** Runs `headgate traffic` in this process: the table below asks it for every finding. */
async function trafficCommand(...args: readonly string[]): Promise<string> {
  let output = "";
  const out = (text: string): void => {
    output += text;
  };
  await traffic(args, { out, err: out, env: {}, readFile: (path) => readFile(path, "utf8") });
  return output;
}

describe("what is found about messages", () => {
  it("[SC-005, SC-052, SC-053, SC-054, SC-055, SC-083, SC-085, SC-089] is counted, logged, recorded and shown", async () => {
    using folder = temporaryFolder();
    await using legacy = await faultyLegacyServer();
    await using modern = await faultyModernServer();
    await using careless = await fakeUpstream((call) => call.replyRaw(202));
    const upstreams = {
      legacy: { url: legacy.url, transport: "streamable-http", era: "legacy" },
      modern: { url: modern.url, transport: "streamable-http", era: "modern" },
    };
    const tried = messageFaults.flatMap((fault) =>
      (fault.modes ?? modes).map((mode) => ({ fault, code: fault.code, mode, route: `${mode}-${fault.era}` })),
    );
    const routes = tried.map(
      ({ fault: { era }, mode, route }) => [route, { upstream: upstreams[era], mode, validation: noted }] as const,
    );
    const config = {
      listen: { port: 0 },
      admin: { port: 0 },
      log: { level: "debug", format: "json" },
      limits: { pending: pendingLimit, pendingPerPrincipal: pendingLimit },
      record: { file: folder.at("traffic.sqlite") },
      routes: {
        ...Object.fromEntries(routes),
        strict: { upstream: upstreams.legacy, validation: "semantic" },
        "observe-raw": {
          upstream: { url: careless.url, transport: "streamable-http", era: "legacy" },
          mode: "observe",
        },
      },
    };
    await using gateway = await startGateway([
      "run",
      "--config",
      folder.write("headgate.json", JSON.stringify(config)),
    ]);
    for (const { fault, route } of tried) {
      const found = async (code: string): Promise<unknown> =>
        gateway.process.waitForLine(new RegExp(`"route":"${route}","diagnostic":"${code}"`, "u"));
      await commit(fault, { url: `${gateway.origin}/${route}/mcp`, found });
    }
    // What is refused for a finding is found like the rest.
    const strict = await openSession(`${gateway.origin}/strict/mcp`);
    await strict.post(toolCall(1, "read", { name: 5 }));
    await strict.post({ jsonrpc: "2.0", id: 2, method: "prompts/list" });
    for (const [, body, revision = "2025-11-25"] of malformedBodies)
      await post(`${gateway.origin}/observe-raw/mcp`, body, { "mcp-protocol-version": revision });
    const malformed = malformedBodies.map(([code]) => ({ code, route: "observe-raw" }));
    const refused = [
      { code: "schema.type", route: "strict" },
      { code: "capability.missing", route: "strict" },
    ];
    const all = [...tried, ...refused, ...malformed];
    const countOf = ({ code, route }: (typeof all)[number]) =>
      `headgate_diagnostics_total{route="${route}",code="${code}"} `;
    // What is only observed is looked at after it was passed on.
    await eventually(async () => {
      const text = await metricsOf(gateway);
      expect(all.map(countOf).filter((count) => !text.includes(count))).toEqual([]);
    });
    await gateway.process.stop();
    const store = ["-s", folder.at("traffic.sqlite")];
    const lines = jsonLines<{ diagnostic?: string; exchange: string; route: string }>(gateway.process.output());
    const missing = await Promise.all(
      all.map(async ({ code, route }) => {
        const logged = lines.filter((line) => line.diagnostic === code && line.route === route);
        const listed = await trafficCommand(`diagnostic:${code}`, `route:${route}`, "--json", ...store);
        const [record] = jsonLines<ExchangeRecord>(listed).filter(({ id }) =>
          logged.some(({ exchange: label }) => label === id),
        );
        const shown = record === undefined ? "" : await trafficCommand("show", record.id, ...store);
        const isShown = shown.includes(`found ${code}`);
        const told = { isLogged: logged.length > 0, isListed: record !== undefined, isShown };
        return Object.values(told).every(Boolean) ? [] : [{ route, code, ...told }];
      }),
    );
    expect(missing.flat()).toEqual([]);
  });

  it("is found on standard streams too, where a client can cancel its handshake", async () => {
    using folder = temporaryFolder();
    await using upstream = await faultyLegacyServer();
    const config = {
      log: { level: "debug", format: "json" },
      record: { file: folder.at("traffic.sqlite") },
      upstream: { url: upstream.url, transport: "streamable-http", era: "legacy" },
    };
    const file = folder.write("headgate.json", JSON.stringify(config));
    await using gateway = await startProcess([process.execPath, bin, "stdio", "--config", file]);
    // Both lines are there before the server has answered.
    gateway.stdin.end([handshake("2025-11-25"), cancel("hello")].map((line) => `${JSON.stringify(line)}\n`).join(""));
    const [line] = await gateway.waitForLine(/.*"diagnostic":"cancel.initialize".*/u);
    await gateway.exited;
    const { exchange: label } = JSON.parse(line) as { exchange: string };
    const shown = await headgate("traffic", "show", label, "-s", folder.at("traffic.sqlite"));
    expect(shown.output).toContain("found cancel.initialize at /params/requestId");
  });

  it("is found on standard streams too, where a message is larger than all that its sender may have here", async () => {
    using folder = temporaryFolder();
    await using upstream = await faultyLegacyServer();
    const config = {
      log: { level: "debug", format: "json" },
      record: { file: folder.at("traffic.sqlite") },
      limits: { bytesPerPrincipal: 20_000 },
      upstream: { url: upstream.url, transport: "streamable-http", era: "legacy" },
    };
    const file = folder.write("headgate.json", JSON.stringify(config));
    await using gateway = await startProcess([process.execPath, bin, "stdio", "--config", file]);
    const call = toolCall("large", "read", { text: "x".repeat(40_000) });
    gateway.stdin.end([handshake("2025-11-25"), call].map((line) => `${JSON.stringify(line)}\n`).join(""));
    const [line] = await gateway.waitForLine(/.*"diagnostic":"bytes.exceeded".*/u);
    await gateway.exited;
    const { exchange: label } = JSON.parse(line) as { exchange: string };
    const shown = await headgate("traffic", "show", label, "-s", folder.at("traffic.sqlite"));
    expect(shown.output).toContain("found bytes.exceeded");
  });

  it("has a test for every code of the table", () => {
    const codes = new Set<string>(["cancel.initialize", "bytes.exceeded", ...messageFaults.map(({ code }) => code)]);
    expect(Object.keys(diagnosticTable).filter((code) => !codes.has(code))).toEqual([]);
  });
});

describe("what is no message", () => {
  it("[SC-039] is recorded raw, as it came", async () => {
    using folder = temporaryFolder();
    await using upstream = await faultyLegacyServer();
    await using gateway = await startRoute(folder, upstream.url, "enforce");
    const session = await openSession(gateway.url);
    const { events } = await session.post(toolCall("call", "event.not-json"));
    expect(events.map(({ data }) => data)).toContain("just text");
    await gateway.process.stop();
    const { output } = await headgate("traffic", "export", "-", "-s", folder.at("traffic.sqlite"));
    const raw = jsonLines<CaptureLine>(output).filter(
      (line): line is Frame & { type: "frame" } => line.type === "frame" && line.kind === "raw",
    );
    expect(raw).toMatchObject([{ leg: "upstream", direction: "c2s", body: "just text" }]);
    expect(
      (await headgate("traffic", "show", raw[0]?.exchange ?? "", "-s", folder.at("traffic.sqlite"))).output,
    ).toContain("just text");
  });

  it("[SC-052, SC-059] comes late to the session that gave the request up, on a process that several share", async () => {
    using folder = temporaryFolder();
    const args = [validationServer, folder.at("received")];
    await using gateway = await startConfigured({
      record: { file: folder.at("traffic.sqlite") },
      upstream: { command: process.execPath, args, era: "legacy", sharing: "shared" },
    });
    await openSession(gateway.url);
    const session = await openSession(gateway.url);
    await openSession(gateway.url);
    const held = session.post(toolCall("mine", "hold"));
    await eventually(() => expect(readFileSync(folder.at("received"), "utf8")).toContain('"hold"'));
    await session.post(cancel("mine"));
    await held;
    await gateway.process.waitForLine(/"diagnostic":"response\.late".*"mine\\" was cancelled/u);
    await gateway.process.stop();
    expect(gateway.process.output()).not.toContain("response.orphan");
    const listed = await trafficCommand("diagnostic:response.late", "--json", "-s", folder.at("traffic.sqlite"));
    expect(jsonLines<ExchangeRecord>(listed)).toMatchObject([{ rpcId: "s:mine", session: session.id.slice(0, 8) }]);
  });

  it.each(["over HTTP", "on standard streams", "in a shared process"])(
    "[SC-052] knows an answer twice at once as one: %s",
    async (how) => {
      using folder = temporaryFolder();
      await using http = await legacyUpstream(async (call, { id }) => {
        if (id === undefined) return call.replyRaw(202);
        const stream = call.stream();
        await stream.write(`data: ${JSON.stringify(textResult(id, "done"))}\n\n`.repeat(2));
        stream.end();
      });
      const sharing = how === "in a shared process" ? "shared" : "session";
      const args = [validationServer, folder.at("received")];
      const local = { command: process.execPath, args, era: "legacy", sharing };
      await using gateway = await startConfigured({ upstream: how === "over HTTP" ? { url: http.url } : local });
      const session = await openSession(gateway.url);
      await session.post(toolCall("one", "twice"));
      await gateway.process.waitForLine(/"diagnostic":"response\.duplicate".*"one\\" was already answered/u);
      expect(gateway.process.output()).not.toContain("response.orphan");
    },
  );

  it("[SC-007, SC-030] is recorded as invalid where a route observes; an unknown revision is warned of once", async () => {
    using folder = temporaryFolder();
    await using upstream = await legacyUpstream((call, { id }) => call.reply(textResult(id, "done")));
    await using gateway = await startRoute(folder, upstream.url, "observe");
    const session = await openSession(gateway.url);
    // The revision of the session has no batches, the second body is no JSON, and the third no message.
    const bodies = [
      [{ jsonrpc: "2.0", method: "notifications/roots/list_changed" }],
      "{nonsense",
      { jsonrpc: "1.0", id: 1, method: "x" },
    ];
    for (const body of bodies) await session.post(body).catch(() => undefined);
    const strange = { ...session.headers, "mcp-protocol-version": "2031-01-01" };
    for (const id of [1, 2]) await post(gateway.url, toolCall(id, "read"), strange);
    await gateway.process.stop();
    const store = ["-s", folder.at("traffic.sqlite")];
    const invalid = jsonLines<ExchangeRecord>(
      (await headgate("traffic", "status:invalid", "--oldest", "--json", ...store)).output,
    );
    expect(invalid.map(({ kind, state, diagnostic }) => [kind, state, diagnostic])).toEqual([
      ["raw", "invalid", "batch.unsupported"],
      ["raw", "invalid", "event.not-json"],
      ["raw", "invalid", "jsonrpc.version"],
    ]);
    const warnings = gateway.process
      .output()
      .split("\n")
      .filter((line) => line.includes('"diagnostic":"revision.unknown"'));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('"level":"warn"');
  });
});
