import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime, type FakeTime } from "../../../test/support/fake-time.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { celPolicy } from "../../../test/support/cel-policy.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { createAuditStream, withAudit, type AuditStream } from "./audit-stream.ts";
import type { AuditConfig } from "./config.ts";
import type { DecisionEvent } from "../provider/decision-event.ts";

let folder: string;
let file: string;
let time: FakeTime;
let told: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-audit-"));
  file = join(folder, "audit.ndjson");
  time = createFakeTime(Date.now());
  told = [];
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function opened(config: Partial<AuditConfig> = {}): AuditStream {
  const settings: AuditConfig = {
    file,
    maxBytes: 1_000_000,
    maxAge: 86_400_000,
    keep: 3,
    queueBytes: 100_000,
    onFailure: "drop",
    ...config,
  };
  return createAuditStream(settings, {
    ...time,
    onError: (error) => told.push(`trouble ${error instanceof Error && "code" in error ? String(error.code) : ""}`),
    onRecovery: (lost) => told.push(`recovered, ${lost} lost`),
    onWriteFailure: () => told.push("failed"),
    onLost: () => told.push("lost"),
  });
}

function decisionNamed(id: string, facts: Partial<DecisionEvent> = {}): DecisionEvent {
  const message = requestOf("tools/call", { name: "pay", arguments: { card: "4111" } });
  return {
    id,
    exchange: exchangeWith(message, { principal: principalNamed("ann") }),
    direction: "client-to-server",
    phase: "request",
    method: "tools/call",
    target: { type: "tool", name: "pay" },
    effect: "deny",
    isEnforced: true,
    refusal: { kind: "forbidden", code: "no", reason: "No." },
    list: undefined,
    explanation: { provider: "rules", rule: "r1", read: ["mcp.tool"], durationMs: 0.01234 },
    cause: undefined,
    ...facts,
  };
}

/** The decisions in a file, in their order. */
function idsIn(name: string): readonly string[] {
  return readFileSync(join(folder, name), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => String(Reflect.get(Object(JSON.parse(line)), "decision")));
}

describe("the audit stream", () => {
  it("has one JSON line per decision, without arguments", async () => {
    const audit = opened();
    audit.listener(decisionNamed("d1"));
    audit.listener(decisionNamed("d2", { effect: "allow", refusal: undefined, cause: new Error("late") }));
    await audit.close();
    const [first = "", second = ""] = readFileSync(file, "utf8").split("\n");
    expect(JSON.parse(first)).toEqual({
      time: new Date(time.clock.wall()).toISOString(),
      decision: "d1",
      exchange: "exchange-1",
      route: "test",
      principal: "ann",
      principalKind: "token",
      revision: "2025-11-25",
      direction: "client-to-server",
      phase: "request",
      method: "tools/call",
      target: { type: "tool", name: "pay" },
      effect: "deny",
      enforced: true,
      refusal: { kind: "forbidden", code: "no", reason: "No." },
      provider: "rules",
      rule: "r1",
      read: ["mcp.tool"],
      durationMs: 0.012,
    });
    expect(JSON.parse(second)).toMatchObject({ decision: "d2", effect: "allow", failure: "Error: late" });
    expect(readFileSync(file, "utf8")).not.toContain("4111");
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("appends to an existing file", async () => {
    for (const id of ["a", "b"]) {
      const audit = opened();
      audit.listener(decisionNamed(id));
      await audit.close();
    }
    expect(idsIn("audit.ndjson")).toEqual(["a", "b"]);
  });

  it("rotates by size and keeps some files", async () => {
    const audit = opened({ maxBytes: 1100, keep: 2 });
    for (let count = 1; count <= 9; count++) audit.listener(decisionNamed(`d${count}`));
    await audit.close();
    const old = readdirSync(folder)
      .filter((name) => name !== "audit.ndjson")
      .toSorted();
    expect(old).toHaveLength(2);
    expect([...old, "audit.ndjson"].flatMap(idsIn)).toEqual(["d5", "d6", "d7", "d8", "d9"]);
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).size).toBeLessThanOrEqual(1100);
  });

  it("rotates by age", async () => {
    const audit = opened({ maxAge: 60_000 });
    audit.listener(decisionNamed("old"));
    await audit.close();
    await time.advance(120_000);
    const later = opened({ maxAge: 60_000 });
    later.listener(decisionNamed("new"));
    await later.close();
    expect(readdirSync(folder)).toHaveLength(2);
    expect(idsIn("audit.ndjson")).toEqual(["new"]);
  });

  it("retries failed writes, reports once, and loses only what does not fit", async () => {
    mkdirSync(file);
    const audit = opened({ queueBytes: 1024, onFailure: "refuse" });
    audit.listener(decisionNamed("d1"));
    await time.advance(0);
    while (!told.includes("failed")) await time.advance(0);
    expect(told).toEqual(["failed", "trouble EISDIR"]);
    expect(audit.refuses).toBe(true);
    audit.listener(decisionNamed("d2"));
    audit.listener(decisionNamed("d3"));
    expect(told).toContain("lost");
    rmSync(file, { recursive: true });
    await time.advance(1000);
    await audit.close();
    expect(told.filter((text) => text.startsWith("trouble"))).toHaveLength(1);
    expect(told.at(-1)).toBe("recovered, 1 lost");
    expect(idsIn("audit.ndjson")).toEqual(["d1", "d2"]);
    expect(audit.refuses).toBe(false);
  });

  it("refuses messages while it cannot write only if configured", async () => {
    mkdirSync(file);
    const audit = opened();
    audit.listener(decisionNamed("d1"));
    while (!told.includes("failed")) await time.advance(0);
    expect(audit.refuses).toBe(false);
    await audit.close();
  });

  it("makes a provider refuse while it cannot write", () => {
    const { provider, call } = celPolicy({ rules: [{ allow: "true" }], tools: { deny: ["x"] } });
    const subject = InspectedMessage.of(exchangeWith(requestOf("tools/call", { name: "a" })));
    const audit = { refuses: true };
    const guarded = withAudit(provider, audit);
    expect(guarded.evaluateRequest(subject, call)).toMatchObject({
      effect: "deny",
      refusal: { kind: "unavailable", code: "audit_unavailable" },
    });
    expect("filterList" in guarded).toBe(true);
    audit.refuses = false;
    expect(guarded.evaluateRequest(subject, call)).toMatchObject({ effect: "allow" });
  });
});
