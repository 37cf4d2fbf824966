import {
  copyFileSync,
  truncateSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { beforeEach, describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime, type FakeTime } from "../../../test/support/fake-time.ts";
import { useFreshFolder } from "../../../test/support/fresh-folder.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { celPolicy } from "../../../test/support/cel-policy.ts";
import type { Exchange } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { type AuditConfig, type AuditStream, createAuditStream, withAudit } from "./audit-stream.ts";
import type { DecisionEvent } from "../provider/decision-event.ts";

const inFolder = useFreshFolder();
let file: string;
let time: FakeTime;
let messages: string[] = [];
let told: string[];

beforeEach(() => {
  file = inFolder("audit.ndjson");
  time = createFakeTime(Date.now());
  told = [];
  messages = [];
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
    redact: (text) => text.replaceAll(/ghp_\w+/gu, "[redacted]"),
    onError: (error) => {
      messages.push(error instanceof Error ? error.message : "");
      told.push(`trouble ${error instanceof Error && "code" in error ? String(error.code) : ""}`);
    },
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
  return readFileSync(inFolder(name), "utf8")
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
    const old = readdirSync(inFolder("."))
      .filter((name) => name !== "audit.ndjson")
      .toSorted();
    expect(old).toHaveLength(2);
    expect([...old, "audit.ndjson"].flatMap(idsIn)).toEqual(["d5", "d6", "d7", "d8", "d9"]);
    for (const name of readdirSync(inFolder("."))) expect(statSync(inFolder(name)).size).toBeLessThanOrEqual(1100);
  });

  it("rotates by age", async () => {
    const audit = opened({ maxAge: 60_000 });
    audit.listener(decisionNamed("old"));
    await audit.close();
    await time.advance(120_000);
    const later = opened({ maxAge: 60_000 });
    later.listener(decisionNamed("new"));
    await later.close();
    expect(readdirSync(inFolder("."))).toHaveLength(2);
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

  it("holds the beginning of a session id, and redacts and bounds every text that came with a message", async () => {
    const audit = opened();
    const message = requestOf("tools/call", { name: "pay" });
    const session = { id: "0123456789abcdef-secret", label: "01234567" } as Exchange["session"];
    audit.listener(
      decisionNamed("d1", {
        exchange: { ...exchangeWith(message, { principal: principalNamed("ann") }), session },
        method: "x/ghp_method",
        target: { type: "resource", name: `https://x/?t=ghp_name&${"y".repeat(9_000_000)}` },
        refusal: { kind: "forbidden", code: "no", reason: "Not ghp_reason." },
        explanation: {
          provider: "rules",
          rule: "r1",
          read: [],
          durationMs: 0,
          shadow: [{ rule: "r2", effect: "deny", reason: "not ghp_shadow" }],
          notes: ["note ghp_note"],
        },
        cause: new Error("failed for ghp_cause"),
      }),
    );
    await audit.close();
    const text = readFileSync(file, "utf8");
    expect(text).not.toMatch(/ghp_|89abcdef/u);
    expect(text.length).toBeLessThan(4000);
    expect(JSON.parse(text)).toMatchObject({ session: "01234567", method: "x/[redacted]" });
  });

  it.each([
    ["deleted", () => rmSync(file)],
    ["moved", () => renameSync(file, `${file}.away`)],
    ["replaced", () => (renameSync(file, `${file}.away`), writeFileSync(file, ""))],
  ])("notices within a second that its file was %s, refuses, and begins a new one", async (_how, remove) => {
    const audit = opened({ onFailure: "refuse" });
    audit.listener(decisionNamed("d1"));
    await expect.poll(() => existsSync(file) && idsIn("audit.ndjson").length).toBe(1);
    remove();
    await time.advance(1000);
    await expect.poll(() => audit.refuses).toBe(true);
    expect(told.slice(0, 2)).toEqual(["failed", "trouble "]);
    await time.advance(1000);
    await expect.poll(() => audit.refuses).toBe(false);
    audit.listener(decisionNamed("d2"));
    await audit.close();
    // What was being written when the file went is in the new one too.
    expect(idsIn("audit.ndjson")).toContain("d2");
    expect(told.at(-1)).toBe("recovered, 0 lost");
  });

  it("takes nothing that it wrote itself for the text of others, wherever the compared end of it begins", async () => {
    for (let pad = 0; pad < 4; pad++) {
      const name = `audit-${pad}.ndjson`;
      const audit = opened({ file: inFolder(name), onFailure: "refuse" });
      const target = { type: "tool", name: "\u{1F600}".repeat(300) } as const;
      const events = Array.from({ length: 8 }, (_, index) => decisionNamed(`d${index}`, { target }));
      for (const event of [...events, decisionNamed(`last${"x".repeat(pad)}`)]) audit.listener(event);
      await expect.poll(() => existsSync(inFolder(name)) && idsIn(name).length).toBe(9);
      await time.advance(1000);
      audit.listener(decisionNamed("more"));
      expect(await audit.close()).toBe(0);
      expect(told).toEqual([]);
    }
  });

  it("writes what comes right after its file was deleted into a new one", async () => {
    const audit = opened();
    audit.listener(decisionNamed("d1"));
    await expect.poll(() => existsSync(file) && idsIn("audit.ndjson").length).toBe(1);
    rmSync(file);
    audit.listener(decisionNamed("d2"));
    expect(await audit.close()).toBe(0);
    expect(idsIn("audit.ndjson")).toContain("d2");
  });

  it("takes out part of a line that a killed process or a full disk left", async () => {
    const whole = `${JSON.stringify({ time: "2026", decision: "d0" })}\n`;
    for (const torn of ["{", '{"time":"2026-11-15T1', `{"time":"2026${"x".repeat(200_000)}`]) {
      writeFileSync(file, whole + torn);
      const audit = opened();
      audit.listener(decisionNamed("d1"));
      await audit.close();
      expect(idsIn("audit.ndjson")).toEqual(["d0", "d1"]);
    }
  });

  it.each([
    ["part of a line", '{"theirs"'],
    ["a long part of a line", "x".repeat(200_000)],
  ])("leaves %s that another process is writing", async (_what, part) => {
    const audit = opened();
    audit.listener(decisionNamed("d1"));
    await expect.poll(() => existsSync(file) && idsIn("audit.ndjson").length).toBe(1);
    writeFileSync(file, part, { flag: "a" });
    audit.listener(decisionNamed("d2"));
    await audit.close();
    const again = opened();
    again.listener(decisionNamed("d3"));
    await again.close();
    const lines = readFileSync(file, "utf8").split("\n");
    expect(lines[1]).toBe(part);
    expect(lines.map((line) => /"decision":"(\w+)"/u.exec(line)?.[1])).toEqual([
      "d1",
      undefined,
      "d2",
      "d3",
      undefined,
    ]);
  });

  it.each([
    ["emptied", () => truncateSync(file), "cut off"],
    ["cut off in a line", () => truncateSync(file, 100), "cut off"],
    ["replaced by an older copy", () => writeFileSync(file, readFileSync(`${file}.older`)), "cut off"],
    [
      "overwritten by as many lines of another stream",
      () => writeFileSync(file, readFileSync(file, "utf8").replaceAll("d2", "e2")),
      "overwritten",
    ],
  ])("notices within a second that its file was %s, refuses, and goes on in it", async (_how, change, what) => {
    const audit = opened({ onFailure: "refuse" });
    audit.listener(decisionNamed("d1"));
    await expect.poll(() => existsSync(file) && idsIn("audit.ndjson").length).toBe(1);
    copyFileSync(file, `${file}.older`);
    audit.listener(decisionNamed("d2"));
    await expect.poll(() => idsIn("audit.ndjson").length).toBe(2);
    change();
    await time.advance(1000);
    await expect.poll(() => audit.refuses).toBe(true);
    expect(messages).toEqual([expect.stringContaining(`audit.ndjson was ${what} by another program`)]);
    await time.advance(1000);
    await expect.poll(() => audit.refuses).toBe(false);
    audit.listener(decisionNamed("d3"));
    expect(await audit.close()).toBe(0);
    expect(idsIn("audit.ndjson").at(-1)).toBe("d3");
  });

  it.each([
    ["text without an end of line", "hello"],
    ["lines", "hello\n".repeat(1000)],
    ["other JSON lines", `${JSON.stringify({ level: "info" })}\n`],
  ])("does not change a file with %s, and refuses until it is away", async (_what, text) => {
    const audit = opened({ onFailure: "refuse" });
    audit.listener(decisionNamed("d1"));
    await expect.poll(() => existsSync(file) && idsIn("audit.ndjson").length).toBe(1);
    writeFileSync(file, text);
    await time.advance(1000);
    await expect.poll(() => audit.refuses).toBe(true);
    audit.listener(decisionNamed("d2"));
    await time.advance(1000);
    await expect.poll(() => messages.at(-1)).toContain("was written by another program; move it away");
    expect(audit.refuses).toBe(true);
    expect(readFileSync(file, "utf8")).toBe(text);
    renameSync(file, `${file}.theirs`);
    await time.advance(1000);
    await expect.poll(() => audit.refuses).toBe(false);
    await audit.close();
    expect(idsIn("audit.ndjson")).toEqual(["d2"]);
    expect(readFileSync(`${file}.theirs`, "utf8")).toBe(text);
  });

  it("says how many decisions it could not write at its end", async () => {
    mkdirSync(file);
    const audit = opened();
    audit.listener(decisionNamed("d1"));
    audit.listener(decisionNamed("d2"));
    expect(await audit.close()).toBe(2);
    expect(told.filter((text) => text === "lost")).toHaveLength(2);
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
