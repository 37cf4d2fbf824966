import { describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { type Answering, legacyUpstream } from "../support/legacy-upstream.ts";
import { startOtlpReceiver } from "../support/otlp-receiver.ts";
import { exchange } from "../support/raw-http.ts";

/** The tools of a server, and how a call of each ends. */
const outcomes = {
  fine: "ok",
  fails: "tool_error",
  errs: "error",
  "hangs-up": "failed",
  "says-nothing": "failed",
  // Its stream ends without an answer, which may still come to a client that resumes.
  "ends-early": "failed",
  waits: "cancelled",
} as const;

const answering: Answering = async (call, { id, params }) => {
  if (id === undefined) return call.replyRaw(202);
  switch (String(params?.["name"])) {
    case "fails":
      return call.reply({ jsonrpc: "2.0", id, result: { content: [], isError: true } });
    case "errs":
      return call.reply({ jsonrpc: "2.0", id, error: { code: -32_000, message: "no" } });
    case "hangs-up":
      return call.hangUp();
    case "says-nothing":
      return call.replyRaw(500, { "content-type": "text/plain" }, "what?");
    case "ends-early":
      return call.stream().end();
    case "waits":
      await call.stream().send({ jsonrpc: "2.0", method: "notifications/message", params: {} });
      return;
    default:
      return call.reply(textResult(id, "done"));
  }
};

interface ExchangeLine {
  readonly msg: string;
  readonly target?: string;
  readonly method?: string;
  readonly route: string;
  readonly outcome: string;
}

function jsonLines<Line>(text: string): Line[] {
  return text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Line] : []));
}

describe.each(["enforce", "observe"] as const)("how messages end on a route with `mode: %s`", (mode) => {
  it("[SC-049] is said in the same words by log, metrics, traffic and spans", async () => {
    using folder = temporaryFolder();
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream(answering);
    const store = folder.at("traffic.sqlite");
    const config = {
      listen: { port: 0 },
      admin: { port: 0 },
      log: { level: "info", format: "json" },
      record: { file: store },
      routes: {
        tools: {
          upstream: { url: upstream.url, transport: "streamable-http", era: "legacy" },
          mode,
          timeouts: { tools: { "ends-early": "500ms" } },
        },
      },
    };
    const file = folder.write("headgate.json", JSON.stringify(config));
    await using gateway = await startGateway(["run", "--config", file], {
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url },
    });
    const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
    const session = await openSession(`${gateway.origin}/tools/mcp`);
    for (const tool of Object.keys(outcomes).filter((name) => name !== "waits"))
      await session.post(toolCall(tool, tool));
    {
      await using stream = await session.stream(toolCall("waits", "waits"));
      await stream.next();
      await session.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "waits" } });
    }
    const wanted = Object.entries(outcomes);
    const lines = await eventually(() => {
      const said = jsonLines<ExchangeLine>(gateway.process.output()).filter(({ msg }) => msg === "exchange");
      const calls = said.filter(({ method }) => method === "tools/call");
      const ends = new Map(calls.map(({ target, outcome }) => [target, outcome]));
      expect([calls.length, ends]).toEqual([wanted.length, new Map(wanted)]);
      return said;
    });
    expect(lines.filter(({ method }) => method === "notifications/cancelled")).toMatchObject([{ outcome: "accepted" }]);
    const metrics = (await exchange(`${admin}/metrics`)).text;
    for (const outcome of new Set(Object.values(outcomes))) {
      const count = wanted.filter(([, one]) => one === outcome).length;
      expect(metrics).toContain(
        `headgate_exchanges_total{route="tools",method="tools/call",era="legacy",outcome="${outcome}"} ${count}\n`,
      );
    }
    await gateway.process.stop();
    const { output } = await headgate("traffic", "method:tools/call", "--oldest", "--json", "-s", store);
    expect(jsonLines<ExchangeRecord>(output).map(({ target, state }) => [target, state])).toEqual(wanted);
    expect(gateway.process.output()).not.toMatch(/cannot reach the upstream.*client disconnected/u);
    if (mode === "observe") return;
    const spans = receiver.spans().filter(({ attributes }) => attributes["gen_ai.tool.name"] === "fails");
    expect(spans.map(({ attributes }) => attributes["error.type"])).toContain("tool_error");
  });
});

/** How a notification ends that one of the steps of a route stops, by what it says. */
const news = {
  fine: "accepted",
  "stopped by an interceptor": "refused",
  "breaks an interceptor": "failed",
  "denied by a rule": "refused",
  "not as the schema says": "refused",
} as const;

const interceptor = `
import { block, proceed } from "headgate";
export default ({ message }) => {
  const text = String(message.bytes);
  if (message.kind === "notification" && text.includes("breaks an interceptor")) throw new Error("broken");
  return message.kind === "notification" && text.includes("stopped by") ? block({ reason: "no news" }) : proceed();
};`;

describe("notifications that go no further", () => {
  it("[SC-049] end in the same words in log and traffic, in both directions, and none stays open", async () => {
    const progress = (text: string) => ({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken: "p", progress: text.startsWith("not as") ? "much" : 1, message: text },
    });
    await using upstream = await legacyUpstream(async (call, { id }) => {
      if (id === undefined) return call.replyRaw(202);
      const stream = call.stream();
      for (const text of Object.keys(news)) await stream.send(progress(text));
      await stream.send(textResult(id, "done"));
      return stream.end();
    });
    using folder = temporaryFolder();
    const store = folder.at("traffic.sqlite");
    const config = {
      listen: { port: 0 },
      admin: false,
      log: { level: "info", format: "json" },
      record: { file: store },
      interceptors: [{ file: folder.write("news.mjs", interceptor) }],
      routes: {
        only: {
          upstream: { url: upstream.url, transport: "streamable-http", era: "legacy" },
          validation: "schema",
          policy: {
            rules: [
              { id: "quiet", deny: 'has(mcp.params.message) && mcp.params.message == "denied by a rule"' },
              { id: "rest", allow: "true" },
            ],
          },
        },
      },
    };
    const said: string[] = [];
    {
      const file = folder.write("headgate.json", JSON.stringify(config));
      await using gateway = await startGateway(["run", "--config", file]);
      const session = await openSession(gateway.url);
      for (const text of Object.keys(news)) await session.post(progress(text));
      await session.post({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "t", _meta: { progressToken: "p" } },
      });
      await gateway.process.stop();
      for (const { msg, method, outcome } of jsonLines<ExchangeLine>(gateway.process.output()))
        if (msg === "exchange" && method === "notifications/progress") said.push(outcome);
    }
    const wanted = [...Object.values(news), ...Object.values(news)];
    expect(said).toEqual(wanted);
    const { output } = await headgate("traffic", "method:notifications/progress", "--oldest", "--json", "-s", store);
    expect(jsonLines<ExchangeRecord>(output).map(({ state }) => state)).toEqual(wanted);
  });
});
