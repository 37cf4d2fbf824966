import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { startOtlpReceiver } from "../support/otlp-receiver.ts";

const config = `
upstream: { demo: true }
admin: false
policy:
  rules:
    - { id: no-echo, deny: 'mcp.tool == "echo"', reason: not today }
    - { id: rest, allow: "true" }
`;

describe("the span of a refused call", () => {
  it("[SC-072] says who refused it and by which rule, and the call has no span upstream", async () => {
    await using receiver = await startOtlpReceiver();
    const folder = await mkdtemp(join(tmpdir(), "headgate-otel-"));
    try {
      const file = join(folder, "headgate.yaml");
      await writeFile(file, config);
      await using gateway = await startGateway(["run", "--config", file, "--port", "0"], {
        env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url },
      });
      const session = await openSession(gateway.url);
      await session.post(toolCall(1, "echo", { arguments: { text: "a" } }));
      await gateway.process.stop();
    } finally {
      await rm(folder, { recursive: true });
    }
    const spans = receiver.spans().filter(({ name }) => name === "tools/call echo");
    expect(spans.map(({ kind }) => kind)).toEqual(["SPAN_KIND_SERVER"]);
    expect(spans[0]?.events).toEqual(["headgate.decision"]);
    expect(receiver.text()).toContain("no-echo");
  });
});
