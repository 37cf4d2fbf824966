import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { decodeLabel, type LabelParts } from "../../src/protocol/ids/label.ts";
import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { type Folder, headgate, temporaryFolder } from "../support/capture-file.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { startGateway } from "../support/gateway.ts";
import { openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { startOtlpReceiver } from "../support/otlp-receiver.ts";

const progress = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: "p", progress: 1 } };

/** Answers with a stream: progress, then the result. */
const streaming: Answering = async (call, { id }) => {
  const stream = call.stream();
  await stream.send(progress);
  await stream.send(textResult(id, "done"));
  stream.end();
};

function configFor(folder: Folder, url: string, policy: object = { rules: [{ id: "all", allow: "true" }] }): string {
  return folder.write(
    "headgate.json",
    JSON.stringify({
      listen: { port: 0 },
      admin: false,
      record: { file: folder.at("traffic.sqlite") },
      audit: { file: folder.at("audit.ndjson") },
      upstream: { url },
      policy,
    }),
  );
}

function partsOf(label: string | undefined): LabelParts | undefined {
  const decoded = decodeLabel(label ?? "");
  return decoded.ok ? decoded.parts : undefined;
}

function jsonLines<Line>(text: string): Line[] {
  return text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Line] : []));
}

/** The address of a server that is gone. */
async function closedServer(): Promise<{ readonly url: string }> {
  await using server = await fakeUpstream((call) => call.replyRaw(202));
  return { url: new URL(server.url).origin };
}

describe("labels of exchanges", () => {
  it("[SC-036, SC-037, SC-067] are on the log line, the events, the frames, the span and the decision, and find the exchange", async () => {
    using folder = temporaryFolder();
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream(streaming);
    await using gateway = await startGateway(["run", "--config", configFor(folder, upstream.url)], {
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url },
    });
    const session = await openSession(gateway.url);
    const answer = await session.post(toolCall("a-7%", "read", { _meta: { progressToken: "p" } }));
    await gateway.process.stop();

    // The client sees them as ids of events; an event without a message has one too.
    const ids = answer.events.map(({ id }) => id);
    const parts = ids.map(partsOf);
    const node = parts[0]?.node;
    const shared = { session: session.id.slice(0, 8), node };
    expect(parts).toMatchObject([
      // The priming event.
      { ...shared, subject: { kind: "raw" } },
      { ...shared, subject: { kind: "notification" } },
      { ...shared, subject: { kind: "id", key: "s:a-7%" } },
    ]);
    const label = ids.at(-1) ?? "";

    const logged = jsonLines<{ msg: string; exchange?: string; method?: string }>(gateway.process.output());
    expect(logged).toContainEqual(expect.objectContaining({ msg: "exchange", exchange: label, method: "tools/call" }));
    const audited = jsonLines<{ exchange: string; method: string }>(readFileSync(folder.at("audit.ndjson"), "utf8"));
    expect(audited).toContainEqual(expect.objectContaining({ exchange: label, method: "tools/call" }));
    const spans = receiver.spans().filter(({ attributes }) => attributes["headgate.exchange"] === label);
    expect(spans.map(({ name }) => name)).toContain("tools/call read");

    const store = ["-s", folder.at("traffic.sqlite")];
    const exported = jsonLines<CaptureLine>((await headgate("traffic", "export", "-", ...store)).output);
    const frames = exported.flatMap((line) => (line.type === "frame" && line.kind !== "end" ? [line.exchange] : []));
    expect(frames.filter((exchange) => partsOf(exchange) === undefined)).toEqual([]);
    expect(frames.filter((exchange) => exchange === label).length).toBeGreaterThan(3);

    const found = jsonLines<ExchangeRecord>((await headgate("traffic", label, "--json", ...store)).output);
    expect(found).toMatchObject([{ id: label, rpcId: "s:a-7%", session: session.id.slice(0, 8), target: "read" }]);
    // The label of the progress event finds that, and the row's short id shows the whole operation.
    const event = ids.find((id) => partsOf(id)?.subject.kind === "notification") ?? "";
    expect(jsonLines<ExchangeRecord>((await headgate("traffic", event, "--json", ...store)).output)).toMatchObject([
      { method: "notifications/progress", parent: label },
    ]);
    const short = `${node?.slice(0, 4)}-${parts.at(-1)?.counter}`;
    expect((await headgate("traffic", label, ...store)).output).toContain(short);
    const shown = await headgate("traffic", "show", short, ...store);
    expect(shown.output).toContain(label);
    expect(shown.output).toContain("notifications/progress");
  });

  it("[SC-036] are on the warning that a message passed without a decision", async () => {
    using folder = temporaryFolder();
    await using upstream = await legacyUpstream((call, { id }) => call.reply(textResult(id, "done")));
    const { url } = await closedServer();
    const policy = { authzen: { url, retries: 0 }, failOpen: true };
    await using gateway = await startGateway(["run", "--config", configFor(folder, upstream.url, policy)]);
    const session = await openSession(gateway.url);
    await session.post({ jsonrpc: "2.0", id: "open", method: "prompts/get", params: { name: "any" } });
    await gateway.process.stop();
    const lines = jsonLines<{ msg: string; exchange?: string }>(gateway.process.output());
    const labels = (message: string) => lines.flatMap(({ msg, exchange }) => (msg.includes(message) ? [exchange] : []));
    const opened = labels("policy failed open");
    expect(opened.map((label) => partsOf(label)?.subject)).toContainEqual({ kind: "id", key: "s:open" });
    expect(labels("exchange")).toEqual(expect.arrayContaining(opened));
  });

  it("[SC-037, SC-069] hold no secret that a client put into the id of a request, and stay short", async () => {
    using folder = temporaryFolder();
    await using upstream = await legacyUpstream((call, { id }) => call.reply(textResult(id, "done")));
    await using gateway = await startGateway(["run", "--config", configFor(folder, upstream.url)]);
    const session = await openSession(gateway.url);
    const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    await session.post(toolCall(secret, "read"));
    await session.post(toolCall("x".repeat(1000), "read"));
    await gateway.process.stop();
    const { output } = await headgate("traffic", "--json", "tool:read", "-s", folder.at("traffic.sqlite"));
    const labels = jsonLines<ExchangeRecord>(output).map(({ id }) => id);
    expect(labels.map((label) => partsOf(label)?.subject.kind)).toEqual(["id", "id"]);
    for (const label of labels) expect(label.length).toBeLessThan(120);
    expect(`${output}${gateway.process.output()}`).not.toContain(secret);
  });
});
