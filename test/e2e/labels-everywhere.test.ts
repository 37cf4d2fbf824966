import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

import { describe, expect, it } from "vitest";

import { traffic } from "../../src/cli/traffic/traffic.ts";
import { decodeLabel, type LabelSubject } from "../../src/protocol/ids/label.ts";
import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { bin, headgate, temporaryFolder } from "../support/capture-file.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { handshake, messageOf, nextMessage, openSession, toolCall } from "../support/legacy-session.ts";
import { type Answering, legacyUpstream } from "../support/legacy-upstream.ts";
import { faultyModernServer } from "../support/message-faults.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { startOtlpReceiver } from "../support/otlp-receiver.ts";
import { startProcess } from "../support/process.ts";
import { exchange, openStream, post } from "../support/raw-http.ts";

/** Ids that could be taken for something else, and the keys that decoding must give back. */
const oddIds: readonly (readonly [json: string, key: string])[] = [
  ['"a-b-c"', "s:a-b-c"],
  ['"50%"', "s:50%"],
  [String.raw`"é😀\n\u0000"`, "s:é😀\n\0"],
  ['"notif"', "s:notif"],
  ['"raw"', "s:raw"],
  ['"n.1"', "s:n.1"],
  ['""', "s:"],
  ['"0"', "s:0"],
  ["0", "n:0"],
  ["-7", "n:-7"],
  ["9007199254740993", "n:9007199254740993"],
];

/** Says something, asks something where the tool is `ask`, and answers with the bytes of the id. */
const talkative: Answering = async (call, { id, method, params }) => {
  if (id === undefined || method === undefined) return call.replyRaw(202);
  const rawId = /"id":\s*("(?:[^"\\]|\\.)*"|-?\d+)/u.exec(call.text)?.[1] ?? "";
  if (method === "tools/list") {
    const tools = ["read", "ask"].map((name) => ({ name, inputSchema: { type: "object" } }));
    return call.reply({ jsonrpc: "2.0", id, result: { tools } });
  }
  const stream = call.stream();
  await stream.send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "x" } });
  if (params?.["name"] === "ask") await stream.send({ jsonrpc: "2.0", id: "srv-1", method: "roots/list" });
  await stream.write(`data: {"jsonrpc":"2.0","id":${rawId},"result":{"content":[]}}\n\n`);
  stream.end();
};

function jsonLines<Line>(text: string): Line[] {
  return text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Line] : []));
}

function subjectOf(label: string): LabelSubject | undefined {
  const decoded = decodeLabel(label);
  return decoded.ok ? decoded.parts.subject : undefined;
}

/** Speaks as a legacy client: odd ids, a batch with a refused member, and an answer to the server. */
async function speakLegacy(url: string, prefix = ""): Promise<void> {
  const session = await openSession(url, "2025-03-26");
  for (const [id] of oddIds) {
    const call = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${prefix}read"}}`;
    expect([id, (await session.post(call)).status]).toEqual([id, 200]);
  }
  await session.post([toolCall("in-1", `${prefix}read`), toolCall("in-2", "forbidden")]);
  await using stream = await session.stream(toolCall("asking", `${prefix}ask`));
  for (let message = await nextMessage(stream); message !== undefined; message = await nextMessage(stream)) {
    const { method, id } = message as { method?: string; id?: string };
    if (method === "roots/list") await session.post({ jsonrpc: "2.0", id, result: { roots: [] } });
  }
}

/** Speaks as a client of HTTP+SSE, whose answers come as events. */
async function speakSse(origin: string, route: string): Promise<void> {
  await using stream = await openStream(`${origin}/${route}/sse`, { headers: { accept: "text/event-stream" } });
  const endpoint = (await stream.next())?.data ?? "";
  const url = new URL(endpoint, origin).href;
  for (const message of [handshake("2024-11-05"), toolCall("over-sse", "read")]) {
    await post(url, message);
    for (let event = await stream.next(); event !== undefined; event = await stream.next())
      if ((messageOf(event) as { id?: unknown }).id !== undefined) break;
  }
}

async function trafficOf(store: string, ...args: readonly string[]): Promise<string> {
  let output = "";
  const out = (text: string): void => {
    output += text;
  };
  await traffic([...args, "-s", store], { out, err: out, env: {}, readFile: (path) => readFile(path, "utf8") });
  return output;
}

/** Everything that a gateway says about exchanges, with its label. */
interface Told {
  readonly exchange?: string;
  readonly msg?: string;
  readonly rpc?: string;
}

describe("labels of exchanges", () => {
  it("[SC-036, SC-037, SC-067] decode and are found, for every sender and every kind of id", async () => {
    using folder = temporaryFolder();
    const store = folder.at("traffic.sqlite");
    await using receiver = await startOtlpReceiver();
    await using legacy = await legacyUpstream(talkative);
    await using modern = await faultyModernServer();
    const old = { url: legacy.url, transport: "streamable-http", era: "legacy" };
    const recent = { url: modern.url, transport: "streamable-http", era: "modern" };
    const policy = { rules: [{ id: "no", deny: 'mcp.tool == "forbidden"' }, { allow: "true" }] };
    const config = {
      listen: { port: 0 },
      admin: false,
      log: { level: "trace", format: "json" },
      record: { file: store },
      audit: { file: folder.at("audit.ndjson") },
      routes: {
        old: { upstream: old, policy },
        recent: { upstream: recent, policy },
        several: { upstreams: { a: old, b: recent }, policy },
        seen: { upstream: old, mode: "observe" },
      },
    };
    await using gateway = await startGateway(
      ["run", "--config", folder.write("headgate.json", JSON.stringify(config))],
      { env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url } },
    );
    const urlOf = (route: string): string => `${gateway.origin}/${route}/mcp`;
    await speakLegacy(urlOf("old"));
    await speakLegacy(urlOf("recent"));
    await speakLegacy(urlOf("several"), "a__");
    await speakSse(gateway.origin, "old");
    for (const [route, name] of [
      ["old", "read"],
      ["recent", "read"],
      ["several", "b__read"],
    ] as const) {
      await postModern(urlOf(route), modernRequest(-1, "tools/call", { name }));
      await postModern(urlOf(route), modernRequest("no-1", "tools/call", { name: "forbidden" }));
    }
    const observed = await openSession(urlOf("seen"));
    for (const [id] of oddIds)
      await observed.post(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"read"}}`);
    await post(urlOf("old"), "{nonsense");
    await exchange(`${gateway.origin}/nowhere`);
    // What is only observed is looked at after it was passed on.
    await eventually(() => expect(gateway.process.output()).toContain(`n.9007199254740993`));
    await gateway.process.stop();

    const told: readonly Told[] = [
      ...jsonLines<Told>(gateway.process.output()),
      ...jsonLines<Told>(readFileSync(folder.at("audit.ndjson"), "utf8")),
      ...receiver.spans().map(({ attributes }) => ({ exchange: String(attributes["headgate.exchange"]) })),
    ];
    expect(told.filter(({ exchange: label }) => label !== undefined && subjectOf(label) === undefined)).toEqual([]);
    // Every message that ended has a line, and all that is told of it is told under labels that were recorded.
    const exported = jsonLines<CaptureLine>((await headgate("traffic", "export", "-", "-s", store)).output);
    const records = exported.flatMap((line) => (line.type === "exchange" ? [line] : []));
    const labels = new Set(records.map(({ id }) => id));
    expect(told.flatMap(({ exchange: label }) => (label === undefined || labels.has(label) ? [] : [label]))).toEqual(
      [],
    );
    const frames = exported.flatMap((line) => (line.type === "frame" && line.kind !== "end" ? [line.exchange] : []));
    expect(frames.filter((label) => !labels.has(label))).toEqual([]);
    // The id of the message comes back from each label; the gateway's own requests have that of what caused them.
    const mismatched = records.filter(({ id, rpcId, kind }) => {
      const decoded = decodeLabel(id);
      if (!decoded.ok) return true;
      const { subject, caused } = decoded.parts;
      if (subject.kind === "id") return caused === undefined && subject.key !== rpcId;
      return (subject.kind === "notification") !== (kind === "notification");
    });
    expect(mismatched.map(({ id, rpcId, kind }) => [id, rpcId, kind])).toEqual([]);
    for (const route of ["old", "recent", "several", "seen"])
      for (const [, key] of oddIds)
        expect(records.filter((one) => one.route === route && one.rpcId === key).map(({ state }) => state)).toEqual([
          "ok",
        ]);
    expect(records.filter(({ id }) => /\.\d+$/u.test(id)).map(({ method }) => method)).toContain("initialize");
    for (const label of labels) {
      const found = jsonLines<ExchangeRecord>(await trafficOf(store, label, "--json"));
      expect(found.map(({ id }) => id)).toEqual([label]);
    }
    expect(await trafficOf(store, "show", [...labels].find((id) => id.endsWith(".1")) ?? "")).toContain("initialize");
  });

  it("[SC-036] are those of standard streams, too", async () => {
    using folder = temporaryFolder();
    const store = folder.at("traffic.sqlite");
    await using upstream = await legacyUpstream(talkative);
    const config = {
      log: { level: "info", format: "json" },
      record: { file: store },
      upstream: { url: upstream.url, transport: "streamable-http", era: "legacy" },
    };
    const file = folder.write("headgate.json", JSON.stringify(config));
    await using gateway = await startProcess([process.execPath, bin, "stdio", "--config", file]);
    const calls = oddIds.map(([id]) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
    const ready = { jsonrpc: "2.0", method: "notifications/initialized" };
    for (const line of [JSON.stringify(handshake("2025-11-25")), JSON.stringify(ready), ...calls])
      gateway.stdin.write(`${line}\n`);
    await eventually(() =>
      expect(gateway.output().match(/"method":"ping".*"msg":"exchange"/gu)).toHaveLength(oddIds.length),
    );
    gateway.stdin.end();
    await gateway.exited;
    const lines = jsonLines<Told & { method?: string }>(gateway.output()).filter(({ msg }) => msg === "exchange");
    const pings = lines.filter(({ method }) => method === "ping").map(({ exchange: label = "" }) => label);
    expect(pings.map((label) => subjectOf(label)).toSorted(byKey)).toEqual(
      oddIds.map(([, key]) => ({ kind: "id", key })).toSorted(byKey),
    );
    for (const label of pings)
      expect(jsonLines<ExchangeRecord>(await trafficOf(store, label, "--json"))).toMatchObject([
        { id: label, method: "ping" },
      ]);
  });
});

function byKey(one: unknown, other: unknown): number {
  return JSON.stringify(one) < JSON.stringify(other) ? -1 : 1;
}
