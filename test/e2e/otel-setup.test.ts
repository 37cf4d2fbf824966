import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { modernRequest, streamModern } from "../support/modern-request.ts";
import { startOtlpReceiver } from "../support/otlp-receiver.ts";
import { exchange } from "../support/raw-http.ts";
import { eventually } from "../support/eventually.ts";

const trace = "0af7651916cd43dd8448eb211c80319c";
const traceparent = `00-${trace}-b7ad6b7169203331-01`;

const answer: Answering = (call, { id }) => {
  call.reply(textResult(id, "done"));
};

/** Runs these lines in the process before anything else. */
function before(script: string): string {
  return `--import=data:text/javascript,${encodeURIComponent(script)}`;
}

/** What must never reach a collector, each in another place. */
const secrets = {
  commandLine: "Bearer c0mmandLineSecret99",
  toolName: "AKIAIOSFODNN7EXAMPLE",
  requestId: "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
  uriPassword: "uriPassw0rd77",
  uriQuery: "queryT0ken4242424242",
  errorText: "xoxb-123456789012-abcdefABCDEF",
  argument: "argumentSecret123",
  result: "resultSecret456",
};

describe("telemetry as it leaves the gateway", () => {
  it("[SC-069] [SC-072] has no secret in it, wherever the secret stood", async () => {
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream((call, { id, method }) => {
      if (method !== "resources/read") call.reply(textResult(id, secrets.result));
      else {
        const message = `token ${secrets.errorText} is not valid`;
        call.reply({ jsonrpc: "2.0", id, error: { code: -32_603, message } });
      }
    });
    const header = `authorization: ${secrets.commandLine}`;
    await using gateway = await startGateway(
      ["run", "--upstream", upstream.url, "--upstream-header", header, "--port", "0"],
      { env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url } },
    );
    const session = await openSession(gateway.url);
    const args = { password: secrets.argument };
    await session.post(toolCall(secrets.requestId, secrets.toolName, { arguments: args }));
    const uri = `https://me:${secrets.uriPassword}@files.example/a?access_token=${secrets.uriQuery}`;
    await session.post({ jsonrpc: "2.0", id: 2, method: "resources/read", params: { uri } });
    await gateway.process.stop();

    expect(receiver.spans().map(({ name }) => name)).toContain("resources/read");
    const sent = receiver.text();
    const found = Object.entries(secrets).filter(([, secret]) => sent.includes(secret));
    expect(found).toEqual([]);
    // The whole id of a session is a credential too.
    expect(sent).not.toContain(session.id);
    expect(receiver.resource()).not.toHaveProperty("process.command_args");
  });

  it("[SC-072] tells how long it took until somebody listened, not how long they did", async () => {
    await using receiver = await startOtlpReceiver();
    await using gateway = await startGateway(["run", "--port", "0"], {
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_BSP_SCHEDULE_DELAY: "20" },
    });
    const listen = modernRequest("sub", "subscriptions/listen", {
      notifications: { toolsListChanged: true },
    });
    await using stream = await streamModern(gateway.url, listen);
    expect(await stream.next()).toBeDefined();
    // The stream is still open.
    await eventually(() => {
      const kinds = receiver.spans().flatMap(({ name, kind }) => (name === "subscriptions/listen" ? [kind] : []));
      expect(kinds.toSorted()).toEqual(["SPAN_KIND_CLIENT", "SPAN_KIND_SERVER"]);
    });
  });
});

describe("figures for Prometheus", () => {
  it("[SC-072] have examples of traces for scrapers that ask for OpenMetrics, without OpenTelemetry", async () => {
    await using upstream = await legacyUpstream(answer);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"]);
    const session = await openSession(gateway.url);
    await session.post(toolCall(1, "weigh", { _meta: { traceparent } }));
    const accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    const open = await exchange(`${gateway.origin}/metrics`, { headers: { accept } });
    expect(open.headers["content-type"]).toContain("application/openmetrics-text");
    expect(open.text).toMatch(
      new RegExp(
        `headgate_exchange_duration_seconds_bucket\\{[^}]*method="tools/call"[^}]*\\} 1 # \\{trace_id="${trace}"`,
        "u",
      ),
    );
    expect(open.text).toMatch(/# TYPE headgate_exchanges counter\n/u);
    expect(open.text.endsWith("# EOF\n")).toBe(true);
    const plain = await exchange(`${gateway.origin}/metrics`);
    expect(plain.headers["content-type"]).toContain("text/plain");
    expect(plain.text).not.toContain(trace);
  });
});

describe("the SDK of OpenTelemetry", () => {
  it("[SC-072] is not needed: where it is asked for and missing, a warning says what to install", async () => {
    const missing = `import { registerHooks } from "node:module";
      registerHooks({ resolve(name, context, next) {
        if (!name.startsWith("@opentelemetry/")) return next(name, context);
        throw Object.assign(new Error("Cannot find package " + name), { code: "ERR_MODULE_NOT_FOUND" });
      } });`;
    await using upstream = await legacyUpstream(answer);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      env: { OTEL_TRACES_EXPORTER: "otlp", NODE_OPTIONS: before(missing) },
    });
    const session = await openSession(gateway.url);
    expect((await session.post(toolCall(1, "weigh"))).status).toBe(200);
    expect((await gateway.process.stop()).code).toBe(0);
    expect(gateway.process.output()).toContain("npm install @opentelemetry/api @opentelemetry/sdk-node");
  });

  it("[SC-072] is not even looked for where the environment does not ask for it", async () => {
    const forbidden = `import { registerHooks } from "node:module";
      registerHooks({ resolve(name, context, next) {
        if (name.startsWith("@opentelemetry/")) console.error("looked for " + name);
        return next(name, context);
      } });`;
    await using gateway = await startGateway(["run", "--port", "0"], {
      env: { OTEL_SERVICE_NAME: "everything-here", NODE_OPTIONS: before(forbidden) },
    });
    await openSession(gateway.url);
    await gateway.process.stop();
    expect(gateway.process.output()).not.toContain("looked for");
  });

  it("[SC-072] that runs in the process already is used as it is", async () => {
    const manifest = resolve(import.meta.dirname, "../../package.json");
    const somebody = `import { createRequire } from "node:module";
      const { NodeSDK } = createRequire(${JSON.stringify(manifest)})("@opentelemetry/sdk-node");
      new NodeSDK({ serviceName: "of-somebody-else" }).start();`;
    await using receiver = await startOtlpReceiver();
    await using upstream = await legacyUpstream(answer);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
        OTEL_BSP_SCHEDULE_DELAY: "20",
        NODE_OPTIONS: before(somebody),
      },
    });
    const session = await openSession(gateway.url);
    await session.post(toolCall(1, "weigh"));
    await eventually(() => {
      expect(receiver.spans().map(({ name }) => name)).toContain("tools/call weigh");
    });
    expect(receiver.resource()).toMatchObject({ "service.name": "of-somebody-else" });
  });

  it("[SC-072] may have nobody to send to: calls are served, trouble is logged, the process ends", async () => {
    await using upstream = await legacyUpstream(answer);
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"], {
      // Nobody listens on the discard port.
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT: "500",
        OTEL_BSP_SCHEDULE_DELAY: "20",
      },
    });
    const session = await openSession(gateway.url);
    expect((await session.post(toolCall(1, "weigh"))).status).toBe(200);
    const exit = await gateway.process.stop();
    expect(exit).toEqual({ code: 0, signal: null });
    expect(gateway.process.output()).toMatch(/"reason":"[^"]*ECONNREFUSED[^"]*","msg":"failed to export telemetry"/u);
  });
});
