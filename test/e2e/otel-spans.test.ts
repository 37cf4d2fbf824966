import { describe, expect, it } from "vitest";

import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { stdioFixture } from "../support/fixture.ts";
import { startGateway } from "../support/gateway.ts";
import { openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type Answering } from "../support/legacy-upstream.ts";
import { startOtlpReceiver, type OtlpReceiver, type ReceivedSpan } from "../support/otlp-receiver.ts";
import { exchange } from "../support/raw-http.ts";
import { connectV1 } from "../support/v1-client.ts";

const trace = "0af7651916cd43dd8448eb211c80319c";
const [inBody, inHeader] = ["b7ad6b7169203331", "00f067aa0ba902b7"] as const;
const traceparent = (span: string) => `00-${trace}-${span}-01`;

const traceparentOf = ({ traceId, spanId }: ReceivedSpan) => `00-${traceId}-${spanId}-01`;

/** Environment that sends to a collector; metrics often enough that the last ones come with the end. */
const sendingTo = ({ url }: OtlpReceiver) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: url });

function named(spans: readonly ReceivedSpan[], name: string, kind: "SERVER" | "CLIENT"): ReceivedSpan {
  const found = spans.filter((span) => span.name === name && span.kind === `SPAN_KIND_${kind}`);
  expect(found, `${kind} ${name} among ${spans.map((span) => span.name).join(", ")}`).toHaveLength(1);
  // Just counted.
  return found[0] as ReceivedSpan;
}

const answerAll: Answering = (call, { id, method, params }) => {
  if (params?.["name"] === "broken") {
    call.reply({ jsonrpc: "2.0", id, result: { content: [], isError: true } });
  } else if (params?.["name"] === "unknown") {
    call.reply({ jsonrpc: "2.0", id, error: { code: -32_602, message: "no such tool" } });
  } else if (method === "resources/read") {
    call.reply({ jsonrpc: "2.0", id, error: { code: -32_603, message: "cannot be read" } });
  } else {
    call.reply(textResult(id, "done"));
  }
};

describe("spans of a call", () => {
  it("[SC-072] follow it from the client through the gateway to the server, in message and headers", async () => {
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream(answerAll);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      env: sendingTo(receiver),
    });
    const session = await openSession(gateway.url);
    const meta = { traceparent: traceparent(inBody), tracestate: "vendor=1", progressToken: "p" };
    await session.post(toolCall(7, "weigh", { _meta: meta }));
    await gateway.process.stop();

    const server = named(receiver.spans(), "tools/call weigh", "SERVER");
    const client = named(receiver.spans(), "tools/call weigh", "CLIENT");
    expect(server).toMatchObject({ traceId: trace, parentSpanId: inBody, traceState: "vendor=1" });
    expect(client).toMatchObject({ traceId: trace, parentSpanId: server.spanId });
    expect(server.attributes).toMatchObject({
      "mcp.method.name": "tools/call",
      "mcp.protocol.version": "2025-11-25",
      "mcp.session.id": session.id.slice(0, 8),
      "jsonrpc.request.id": "7",
      "gen_ai.tool.name": "weigh",
      "gen_ai.operation.name": "execute_tool",
      "network.transport": "tcp",
      "network.protocol.name": "http",
      "client.address": "127.0.0.1",
      "headgate.route": `127.0.0.1-${new URL(upstream.url).port}`,
    });
    expect(client.attributes).toMatchObject({
      "server.address": "127.0.0.1",
      "server.port": Number(new URL(upstream.url).port),
    });
    expect([server.status.code, client.status.code]).toEqual(["STATUS_CODE_UNSET", "STATUS_CODE_UNSET"]);
    expect(receiver.resource()).toMatchObject({ "service.name": "headgate" });

    const [call] = upstream.received("tools/call");
    expect(call?.headers).toMatchObject({
      traceparent: traceparent(client.spanId),
      tracestate: "vendor=1",
    });
    expect(call?.json).toMatchObject({
      params: { _meta: { ...meta, traceparent: traceparent(client.spanId) } },
    });
  });

  it("name the server of several that the call is for, on both sides, and where that is", async () => {
    await using receiver = await startOtlpReceiver();
    await using one = await legacyUpstream(answerAll);
    await using two = await legacyUpstream(answerAll);
    const servers = [`one=${one.url}`, `two=${two.url}`];
    await using gateway = await startGateway(["run", "--federate", ...servers, "--port", "0"], {
      env: sendingTo(receiver),
    });
    const session = await openSession(gateway.url);
    await session.post(toolCall(7, "two__weigh"));
    await session.post(toolCall(8, "nobody__weigh"));
    await gateway.process.stop();

    const spans = receiver.spans();
    for (const kind of ["SERVER", "CLIENT"] as const) {
      expect(named(spans, "tools/call two__weigh", kind).attributes).toMatchObject({ "headgate.upstream": "two" });
      const about = ["tools/call nobody__weigh", "initialize"].map((name) => named(spans, name, kind));
      for (const { attributes } of about) expect(attributes).not.toHaveProperty("headgate.upstream");
    }
    expect(named(spans, "tools/call two__weigh", "CLIENT").attributes).toMatchObject({
      "server.address": "127.0.0.1",
      "server.port": Number(new URL(two.url).port),
      "network.protocol.name": "http",
    });
    // The trace goes on in the server, though the message has another name there.
    const client = named(spans, "tools/call two__weigh", "CLIENT");
    const [call] = two.received("tools/call");
    expect(call?.headers).toMatchObject({ traceparent: traceparentOf(client) });
    expect(call?.json).toMatchObject({ params: { name: "weigh" } });
  });

  it("[SC-072] continue what the HTTP request says, and link it where the message says something else", async () => {
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream(answerAll);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      env: sendingTo(receiver),
    });
    const session = await openSession(gateway.url, "2025-11-25", { traceparent: traceparent(inHeader) });
    await session.post(toolCall(1, "by-header"));
    await session.post(toolCall(2, "by-message", { _meta: { traceparent: traceparent(inBody) } }));
    await session.post(toolCall(3, "malformed", { _meta: { traceparent: `00-${"0".repeat(32)}-1-01` } }));
    await gateway.process.stop();

    const spans = receiver.spans();
    expect(named(spans, "tools/call by-header", "SERVER")).toMatchObject({
      parentSpanId: inHeader,
      links: [],
    });
    expect(named(spans, "tools/call by-message", "SERVER")).toMatchObject({
      parentSpanId: inBody,
      links: [{ traceId: trace, spanId: inHeader }],
    });
    expect(named(spans, "tools/call malformed", "SERVER")).toMatchObject({ parentSpanId: inHeader });
    expect(named(spans, "initialize", "SERVER")).toMatchObject({ parentSpanId: inHeader });
    // A notification has no place for it but params that it did not have before.
    const initialized = named(spans, "notifications/initialized", "CLIENT");
    const notices = upstream.calls.filter((call) => call.method === "POST" && call.text.includes("initialized"));
    expect(notices.map(({ json }) => json)).toMatchObject([
      { params: { _meta: { traceparent: traceparent(initialized.spanId) } } },
    ]);
  });

  it("[SC-072] say what failed, as log, metrics and recording do: a tool, the server, or the caller, who is no failure of the gateway's", async () => {
    using folder = temporaryFolder();
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream(answerAll);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      env: { ...sendingTo(receiver), XDG_DATA_HOME: folder.at("data") },
    });
    const session = await openSession(gateway.url);
    await session.post(toolCall(1, "broken"));
    await session.post(toolCall(2, "unknown"));
    const read = { jsonrpc: "2.0", id: 3, method: "resources/read", params: { uri: "file:///a" } };
    await session.post(read);
    const metrics = (await exchange(`${gateway.origin}/metrics`)).text;
    await gateway.process.stop();

    const [, store = ""] = await gateway.process.waitForLine(/recording to (\S+)/u);
    const words = { broken: "tool_error", unknown: "error" };
    for (const [tool, outcome] of Object.entries(words)) {
      expect(gateway.process.output()).toMatch(new RegExp(`"target":"${tool}".*"outcome":"${outcome}"`, "u"));
      expect(metrics).toMatch(
        new RegExp(`headgate_exchanges_total\\{.*method="tools/call".*outcome="${outcome}"\\} 1\\n`, "u"),
      );
      const { output } = await headgate("traffic", `status:${outcome}`, `tool:${tool}`, "--json", "-s", store);
      expect(output).toContain(`"state":"${outcome}"`);
    }
    const spans = receiver.spans();
    const failed = "STATUS_CODE_ERROR";
    expect(named(spans, "tools/call broken", "SERVER")).toMatchObject({
      attributes: { "error.type": "tool_error" },
      status: { code: failed },
    });
    const callerFault = named(spans, "tools/call unknown", "SERVER");
    expect(callerFault.attributes).toMatchObject({ "rpc.response.status_code": "-32602" });
    expect(callerFault.attributes).not.toHaveProperty("error.type");
    expect(callerFault.status.code).toBe("STATUS_CODE_UNSET");
    expect(named(spans, "tools/call unknown", "CLIENT")).toMatchObject({
      attributes: { "error.type": "-32602" },
      status: { code: failed, message: "no such tool" },
    });
    expect(named(spans, "resources/read", "SERVER")).toMatchObject({
      attributes: { "mcp.resource.uri": "file:///a", "error.type": "-32603" },
      status: { code: failed, message: "cannot be read" },
    });
  });

  it("[SC-072] times every operation and session by the names and buckets of the conventions", async () => {
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream(answerAll);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      env: sendingTo(receiver),
    });
    const session = await openSession(gateway.url);
    await session.post(toolCall(1, "weigh"));
    await session.post(toolCall(2, "weigh"));
    await session.post(toolCall(3, "broken"));
    await session.end();
    await gateway.process.stop();

    for (const side of ["server", "client"]) {
      const all = receiver.series(`mcp.${side}.operation.duration`);
      const calls = all.filter(({ attributes }) => attributes["gen_ai.tool.name"] === "weigh");
      expect(calls).toMatchObject([
        {
          unit: "s",
          count: 2,
          bounds: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300],
          attributes: { "mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool" },
        },
      ]);
      expect(calls[0]?.attributes).not.toHaveProperty("jsonrpc.request.id");
      expect(calls[0]?.attributes).not.toHaveProperty("mcp.session.id");
      const failed = all.filter(({ attributes }) => attributes["error.type"] === "tool_error");
      expect(failed).toMatchObject([{ count: 1 }]);
    }
    expect(receiver.series("mcp.server.session.duration")).toMatchObject([
      { unit: "s", count: 1, attributes: { "mcp.protocol.version": "2025-11-25" } },
    ]);
    expect(receiver.series("mcp.client.session.duration")).toMatchObject([
      { count: 1, attributes: { "server.address": "127.0.0.1" } },
    ]);
  });

  it("[SC-072] reach a server that is a process, and what it asks and reports is part of the call", async () => {
    await using receiver = await startOtlpReceiver();
    await using gateway = await startGateway(["run", "--port", "0", "--", ...stdioFixture({ era: "legacy" })], {
      env: sendingTo(receiver),
    });
    {
      await using client = await connectV1({ via: "http", url: gateway.url });
      await client.callTool("test_tool_with_progress", { onProgress: () => {} });
      await client.callTool("test_sampling", { args: { prompt: "hello" } });
    }
    await gateway.process.stop();

    const spans = receiver.spans();
    const reporting = named(spans, "tools/call test_tool_with_progress", "SERVER");
    expect(reporting.events).toContain("notifications/progress");
    expect(spans.filter(({ name }) => name === "notifications/progress")).toEqual([]);
    const call = named(spans, "tools/call test_sampling", "CLIENT");
    expect(call.attributes).toMatchObject({ "network.transport": "pipe" });
    const question = named(spans, "sampling/createMessage", "SERVER");
    expect(question.traceId).toBe(call.traceId);
    expect(named(spans, "sampling/createMessage", "CLIENT").parentSpanId).toBe(question.spanId);
  });
});

describe("a gateway that nobody asked for telemetry", () => {
  it("[SC-072] sends messages on as they came, and its log still says which trace they are part of", async () => {
    await using upstream = await legacyUpstream(answerAll);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      env: { OTEL_SERVICE_NAME: "everything-here", OTEL_EXPORTER_OTLP_ENDPOINT: undefined },
    });
    const session = await openSession(gateway.url, "2025-11-25", { traceparent: traceparent(inHeader) });
    const message = toolCall(1, "weigh", { _meta: { traceparent: traceparent(inBody) } });
    await session.post(message);
    await gateway.process.stop();
    const [call] = upstream.received("tools/call");
    expect(call === undefined ? undefined : sentMessage(call)).toEqual(message);
    expect(call?.headers).not.toHaveProperty("traceparent");
    expect(gateway.process.output()).toMatch(new RegExp(`"trace":"${trace}"[^\\n]*"method":"tools/call"`, "u"));
  });
});
