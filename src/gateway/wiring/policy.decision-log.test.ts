import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { createPolicyBench, deny, type FakeRules } from "../../../test/support/policy.ts";
import { createLogger } from "../../telemetry/log.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { createDecisionLog } from "./policy.ts";

async function logged(rules: FakeRules, level: "info" | "debug", mode: "enforce" | "shadow" = "enforce") {
  const lines: string[] = [];
  const metrics = createMetrics();
  const log = createLogger({ level, pretty: false, destination: { write: (line) => lines.push(line) } });
  const bench = createPolicyBench(rules, undefined, {
    mode,
    onDecision: createDecisionLog("test", mode, metrics, log),
  });
  await bench.handle(exchangeWith(requestOf("tools/call", { name: "weigh" })));
  log.flush();
  return { lines: lines.map((line): unknown => JSON.parse(line)), text: metrics.text() };
}

describe("createDecisionLog", () => {
  it("counts every decision, and logs those that let pass only for those who want to know", async () => {
    const quiet = await logged({}, "info");
    expect(quiet.lines).toEqual([]);
    expect(quiet.text).toContain('{route="test",phase="request",effect="allow",mode="enforce"} 1');
    expect(quiet.text).toContain('headgate_policy_duration_seconds_count{route="test"} 2');
    expect((await logged({}, "debug")).lines).toHaveLength(2);
  });

  it("logs a no with everything that an operator needs, and says where it was not carried out", async () => {
    const { lines } = await logged({ request: () => deny() }, "info");
    expect(lines).toMatchObject([
      {
        msg: "refused by policy",
        decision: "decision-1",
        exchange: "exchange-1",
        rule: "rule-1",
        provider: "fake",
        code: "not_yours",
        read: "mcp.tool",
        target: "weigh",
        enforced: true,
      },
    ]);
    const shadow = await logged({ request: () => deny() }, "info", "shadow");
    expect(shadow.lines).toMatchObject([{ msg: "would be refused by policy", enforced: false }]);
    expect(shadow.text).toContain('effect="deny",mode="shadow"} 1');
  });

  it("warns of a provider that failed, with the cause that no agent is told", async () => {
    const { lines } = await logged(
      {
        request: () => {
          throw new Error("no route to the decision point");
        },
      },
      "info",
    );
    expect(lines).toMatchObject([{ level: "warn", cause: "no route to the decision point", kind: "unavailable" }]);
  });
});
