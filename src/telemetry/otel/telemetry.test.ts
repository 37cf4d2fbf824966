import * as api from "@opentelemetry/api";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { describe, expect, it } from "vitest";
import { exchangeWith, valueOf } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import { noReply } from "../../core/pipeline.ts";
import { createTelemetry } from "./telemetry.ts";

/** A route whose spans are kept here; nothing of it is registered for the process. */
function follow({ isSampled = true, isOn = true } = {}) {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({
    sampler: isSampled ? new AlwaysOnSampler() : new AlwaysOffSampler(),
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
  });
  const telemetry = createTelemetry({
    api,
    tracer: isOn ? provider.getTracer("test") : new api.ProxyTracerProvider().getTracer("none"),
    meter: api.createNoopMeter(),
    now: createFakeTime().clock.now,
    close: async () => {},
  });
  const route = telemetry.route("files", (text) => text.replaceAll("hunter2", "***"));
  const spans = () => exporter.getFinishedSpans();
  return { route, spans };
}

const call = requestOf("tools/call", { name: "weigh", arguments: {} });
const done = { message: resultOf({ content: [] }) };

describe("following a message", () => {
  it("sends it on with the headers that repeat its arguments still fitting it", async () => {
    const { route } = follow();
    const sent: Exchange[] = [];
    const handle = route.received((exchange) =>
      route.send(exchange, { transport: "stdio" }, async (own) => {
        sent.push(own);
        return done;
      }),
    );
    await handle(exchangeWith(call));
    const changed = requestOf("tools/call", { name: "weigh", arguments: { by: "an interceptor" } });
    await handle({ ...exchangeWith(call), message: changed });
    const [plain, edited] = sent;
    expect(plain?.message).toBe(plain?.original);
    expect(valueOf(plain?.message)).toMatchObject({ params: { _meta: plain?.traceHeaders } });
    expect(edited?.original).toBe(call);
  });

  it("begins at once, so that no message overtakes another", () => {
    const { route } = follow();
    let hasArrived = false;
    const handle = route.received((exchange) =>
      route.send(exchange, undefined, async () => {
        hasArrived = true;
        return noReply;
      }),
    );
    const over = handle(exchangeWith(notificationOf("notifications/initialized")));
    expect(hasArrived).toBe(true);
    return over;
  });

  it("marks a trace that nobody samples as not sampled", async () => {
    const { route, spans } = follow({ isSampled: false });
    const exchange = exchangeWith(call);
    await route.received((own) =>
      route.send(own, undefined, async ({ traceHeaders }) => {
        expect(traceHeaders?.traceparent).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-00$/u);
        return done;
      }),
    )(exchange);
    expect(exchange.tracking.trace?.isSampled).toBe(false);
    expect(spans()).toEqual([]);
  });

  it("leaves messages alone where only metrics are wanted", async () => {
    const { route } = follow({ isOn: false });
    const exchange = exchangeWith(call);
    const handle = route.received((own) =>
      route.send(own, undefined, async (sent) => {
        expect(sent).toBe(exchange);
        return done;
      }),
    );
    expect(await handle(exchange)).toBe(done);
    expect(exchange.tracking.trace).toBeUndefined();
  });

  it.each([
    ["upstream_timeout", "timeout", "upstream_timeout"],
    ["upstream_unreachable", "upstream_unreachable", "upstream_unreachable"],
    ["cancelled", "cancelled", undefined],
  ] as const)("tells of %s, and passes it on", async (code, clientType, serverType) => {
    const { route, spans } = follow();
    const failure = new GatewayError(code, "it knew hunter2");
    const handle = route.received((own) => route.send(own, undefined, () => Promise.reject(failure)));
    await expect(handle(exchangeWith(call))).rejects.toBe(failure);
    const [client, server] = spans();
    expect(client?.attributes["error.type"]).toBe(clientType);
    expect(client?.status).toEqual({ code: api.SpanStatusCode.ERROR, message: "it knew ***" });
    const isFailure = serverType !== undefined;
    expect(server?.attributes["headgate.error.code"]).toBe(serverType);
    expect(server?.status.code).toBe(isFailure ? api.SpanStatusCode.ERROR : api.SpanStatusCode.UNSET);
  });

  it("holds no more reports of progress than somebody would read", async () => {
    const { route, spans } = follow();
    const parent = exchangeWith(call);
    await route.received(async () => {
      for (let count = 0; count < 100; count++) {
        const progress = notificationOf("notifications/progress", { progressToken: 1, progress: count });
        await route.received(async () => noReply)(exchangeWith(progress, { parent }));
      }
      return done;
    })(parent);
    expect(spans().map(({ name, events }) => [name, events.length])).toEqual([["tools/call weigh", 32]]);
  });

  it("calls what no revision knows by no name of its own, and cuts long names", async () => {
    const { route, spans } = follow();
    const handle = route.received(async () => done);
    await handle(exchangeWith(requestOf("made/up")));
    await handle(exchangeWith(requestOf("prompts/get", { name: `hunter2${"x".repeat(1000)}` })));
    const [unknown, long] = spans();
    expect(unknown).toMatchObject({ name: "_OTHER", attributes: { "mcp.method.name": "made/up" } });
    expect(long?.name).toMatch(/^prompts\/get \*\*\*x{253}$/u);
    expect(long?.attributes).toHaveProperty("gen_ai.prompt.name");
    expect(long?.attributes).not.toHaveProperty("gen_ai.operation.name");
  });
});
