import { describe, expect, it } from "vitest";

import type { ExchangeRecord, Frame } from "../../src/recorder/contract.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { type Folder, headgate, temporaryFolder } from "../support/capture-file.ts";
import { type RunningGateway, startGateway } from "../support/gateway.ts";
import { openSession, type LegacySession, textResult, toolCall } from "../support/legacy-session.ts";
import { type Answering, legacyUpstream } from "../support/legacy-upstream.ts";
import type { UpstreamStream } from "../support/fake-upstream.ts";
import { exchange, post } from "../support/raw-http.ts";

/** Something that a client or server does wrong, and the finding that it leads to. */
interface Fault {
  readonly code: string;
  /** The tool that does it. */
  readonly tool: string;
  /** What the server writes before its answer. */
  readonly serve?: (stream: UpstreamStream) => Promise<void>;
  /** The only mode that passes it on. */
  readonly mode?: "observe";
  /** What the client does. */
  readonly act?: (session: LegacySession, gateway: RunningGateway) => Promise<unknown>;
}

const progress = (value: number, progressToken: unknown = "p"): unknown => ({
  jsonrpc: "2.0",
  method: "notifications/progress",
  params: { progressToken, progress: value },
});
const cancel = (requestId: unknown): unknown => ({
  jsonrpc: "2.0",
  method: "notifications/cancelled",
  params: requestId === undefined ? {} : { requestId },
});

const faults: readonly Fault[] = [
  {
    code: "progress.not-rising",
    tool: "falling",
    serve: async (stream) => {
      await stream.send(progress(2));
      await stream.send(progress(1));
    },
  },
  { code: "progress.unknown-token", tool: "stranger", serve: (stream) => stream.send(progress(1, "nobody")) },
  {
    code: "progress.malformed",
    tool: "silent",
    serve: (stream) => stream.send({ jsonrpc: "2.0", method: "notifications/progress", params: {} }),
  },
  { code: "event.not-json", tool: "text", serve: (stream) => stream.write("data: just text\n\n") },
  { code: "response.orphan", tool: "orphan", serve: (stream) => stream.send(textResult("no-such-request", "x")) },
  { code: "response.orphan", tool: "read", act: (session) => session.post(textResult("nothing-was-asked", "x")) },
  { code: "cancel.unknown", tool: "read", act: (session) => session.post(cancel("never-sent")) },
  { code: "cancel.malformed", tool: "read", act: (session) => session.post(cancel(undefined)) },
  {
    code: "cancel.finished",
    tool: "read",
    act: async (session) => {
      await session.post(toolCall("over", "read"));
      await session.post(cancel("over"));
    },
  },
  {
    code: "id.reused",
    tool: "read",
    act: async (session) => {
      await session.post(toolCall("again", "read"));
      await session.post(toolCall("again", "read"));
    },
  },
  {
    code: "response.late",
    tool: "later",
    // The answer to a cancelled call comes on the stream of another one.
    serve: (stream) => stream.send(textResult(late.id, "too late")),
    act: async (session) => {
      const call = session.post(toolCall("late", "late"));
      await late.came.promise;
      await session.post(cancel("late"));
      await session.post(toolCall("then", "later"));
      late.over.resolve();
      await Promise.allSettled([call]);
    },
  },
  {
    code: "revision.mismatch",
    tool: "read",
    mode: "observe",
    act: async (session, gateway) => {
      const headers = { ...session.headers, "mcp-protocol-version": "2025-06-18" };
      await post(gateway.url, toolCall("older", "read"), headers);
    },
  },
  {
    code: "id.in-flight",
    tool: "slow",
    act: async (session, gateway) => {
      const calls = [session.post(toolCall("twice", "slow")), session.post(toolCall("twice", "slow"))];
      await gateway.process.waitForLine(/"diagnostic":"id.in-flight"/u);
      slow.resolve();
      await Promise.allSettled(calls);
    },
  },
];

/** Answers each call with the fault that its tool is named after. */
const answering: Answering = async (call, { id, params }) => {
  const stream = call.stream();
  const name = params?.["name"];
  if (name === "slow") await slow.promise;
  if (name === "late") {
    late.id = id;
    late.came.resolve();
    await late.over.promise;
  }
  await faults.find(({ tool }) => tool === name)?.serve?.(stream);
  await stream.send(textResult(id, "done"));
  stream.end();
};

let slow = Promise.withResolvers<void>();
const newLate = () => ({
  id: undefined as unknown,
  came: Promise.withResolvers<void>(),
  over: Promise.withResolvers<void>(),
});
let late = newLate();

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

describe.each(["enforce", "observe"] as const)("findings of a route in %s mode", (mode) => {
  it("[SC-005, SC-052, SC-053, SC-054, SC-055, SC-083, SC-085, SC-089] are counted, logged, recorded and shown", async () => {
    using folder = temporaryFolder();
    slow = Promise.withResolvers();
    late = newLate();
    const tried = faults.filter((fault) => fault.mode === undefined || fault.mode === mode);
    await using upstream = await legacyUpstream(answering);
    await using gateway = await startRoute(folder, upstream.url, mode);
    for (const { tool, serve, act } of tried) {
      const session = await openSession(gateway.url);
      if (serve !== undefined && act === undefined)
        await session.post(toolCall("call", tool, { _meta: { progressToken: "p" } }));
      await act?.(session, gateway);
    }
    const store = ["-s", folder.at("traffic.sqlite")];
    const metrics = await metricsOf(gateway);
    await gateway.process.stop();
    const lines = jsonLines<{ diagnostic?: string; exchange: string }>(gateway.process.output());
    for (const code of new Set(tried.map((fault) => fault.code))) {
      expect(metrics).toMatch(new RegExp(`headgate_diagnostics_total\\{route="files",code="${code}"\\} [1-9]`, "u"));
      const labels = lines.filter(({ diagnostic }) => diagnostic === code).map((line) => line.exchange);
      const { output } = await headgate("traffic", `diagnostic:${code}`, "--json", ...store);
      const found = jsonLines<ExchangeRecord>(output).map(({ id }) => id);
      expect([code, found.filter((id) => labels.includes(id)).length > 0, labels.length > 0]).toEqual([
        code,
        true,
        true,
      ]);
      const shown = await headgate("traffic", "show", found[0] ?? "", ...store);
      expect(shown.output).toContain(`found ${code}`);
    }
  });
});

describe("what is no message", () => {
  it("[SC-039] is recorded raw, as it came", async () => {
    using folder = temporaryFolder();
    await using upstream = await legacyUpstream(answering);
    await using gateway = await startRoute(folder, upstream.url, "enforce");
    const session = await openSession(gateway.url);
    const { events } = await session.post(toolCall("call", "text"));
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
