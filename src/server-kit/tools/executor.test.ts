import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { callerFor } from "../../../test/support/server-kit.ts";
import { anonymous } from "../../core/exchange.ts";
import { kitFailure } from "../entity/failure.ts";
import type { KitSettings } from "../settings/settings.ts";
import { type CallEvent, createExecutor } from "./executor.ts";
import type { ToolCatalog } from "./tool-catalog.ts";
import type { KitCaller, ToolAccess, ToolEntry } from "./tool-entry.ts";

const open: ToolAccess = { requireAuthentication: false, requiredScopes: [], enabledTransports: ["streamable-http"] };

function entryWith(parts: Partial<ToolEntry>): ToolEntry {
  return {
    name: "look",
    title: "Look",
    description: "",
    annotations: {},
    inputSchema: {},
    outputSchema: undefined,
    declaredBy: "test",
    entity: undefined,
    operation: undefined,
    access: open,
    run: async () => ({ kind: "data", value: { seen: 1 } }),
    ...parts,
  };
}

function setUp(parts: Partial<ToolEntry> = {}, deployed = true) {
  const time = createFakeTime();
  const entry = entryWith(parts);
  const events: CallEvent[] = [];
  const settings = { deployed, requireAuthentication: false } as KitSettings;
  const catalog = { tools: new Map([[entry.name, entry]]), settings } as unknown as ToolCatalog;
  const executor = createExecutor(
    () => catalog,
    time.clock,
    () => "fault-1",
  );
  const stop = executor.onCall((event) => void events.push(event));
  const run = async (caller: KitCaller = callerFor()) => executor.run(entry, {}, caller);
  return { executor, run, events, stop };
}

describe("an executor", () => {
  it.each<[string, Partial<ToolEntry>, object, CallEvent["outcome"]]>([
    ["data", {}, { kind: "data", value: { seen: 1 } }, "ok"],
    [
      "an MCP result",
      { run: async () => ({ kind: "result", result: { content: [] } }) },
      { kind: "result", result: { content: [] } },
      "ok",
    ],
    [
      "an MCP result that says it failed",
      { run: async () => ({ kind: "result", result: { content: [], isError: true } }) },
      { kind: "result" },
      "tool_failed",
    ],
    [
      "a failure that the tool declares",
      { run: async () => Promise.reject(kitFailure("not_found", "no such note")) },
      { kind: "failed", failure: { code: "not_found", message: "no such note" } },
      "not_found",
    ],
    [
      "a bug as a fault with an id and no reason",
      { run: async () => Promise.reject(new TypeError("secret")) },
      { kind: "fault", id: "fault-1" },
      "fault",
    ],
    [
      "data that does not match the output schema as a fault",
      { checkOutput: () => "seen: expected string" },
      { kind: "fault", id: "fault-1" },
      "fault",
    ],
  ])("gives %s, and reports the call", async (_what, parts, outcome, label) => {
    const { run, events } = setUp(parts);
    const given = await run();
    expect(given).toMatchObject(outcome);
    expect(JSON.stringify(given)).not.toContain("secret");
    expect(events).toEqual([{ tool: "look", via: "streamable-http", outcome: label, durationMs: 0 }]);
  });

  it("runs nothing for a caller who has already gone", async () => {
    let ran = 0;
    const { run, events } = setUp({
      run: async () => {
        ran++;
        return { kind: "data", value: {} };
      },
    });
    expect(await run({ ...callerFor(), signal: AbortSignal.abort() })).toEqual({ kind: "cancelled" });
    expect(ran).toBe(0);
    expect(events).toMatchObject([{ outcome: "cancelled" }]);
  });

  it("does not report tools that the caller's transport does not have, since their names come from clients", async () => {
    const { run, events } = setUp({ access: { ...open, enabledTransports: [] } });
    expect(await run()).toEqual({ kind: "unknown" });
    expect(events).toEqual([]);
  });

  it("tells removed listeners nothing", async () => {
    const { run, events, stop } = setUp();
    stop();
    await run();
    expect(events).toEqual([]);
  });

  it("is idle when every running call has ended, also those that began meanwhile", async () => {
    const first = Promise.withResolvers<{ kind: "data"; value: {} }>();
    const second = Promise.withResolvers<{ kind: "data"; value: {} }>();
    const turns = [first, second];
    const { executor, run } = setUp({ run: async () => turns.shift()?.promise ?? Promise.reject(new Error("third")) });
    const order: string[] = [];
    const one = run().then(() => order.push("first"));
    const idle = executor.idle().then(() => order.push("idle"));
    const two = run().then(() => order.push("second"));
    first.resolve({ kind: "data", value: {} });
    await one;
    second.resolve({ kind: "data", value: {} });
    await Promise.all([two, idle]);
    expect(order).toEqual(["first", "second", "idle"]);
  });
});

describe("the access rules of a tool", () => {
  const scoped: ToolAccess = { ...open, requiredScopes: ["a", "b"] };
  const ann = principalNamed("ann", { scopes: new Set(["a"]) });
  const both = principalNamed("bob", { scopes: new Set(["a", "b"]) });
  const closed: ToolAccess = { ...open, requireAuthentication: true };

  it.each([
    ["an open tool to anybody", open, anonymous, true, "allowed"],
    ["a tool that needs a login to nobody without one", closed, anonymous, false, "unauthorized"],
    ["scopes to nobody without a login, where deployed", scoped, anonymous, true, "unauthorized"],
    ["scopes to anybody in development without authentication", scoped, anonymous, false, "allowed"],
    ["scopes to nobody who misses one, also in development", scoped, ann, false, "insufficient_scope"],
    ["scopes to a caller who has all", scoped, both, true, "allowed"],
  ] as const)("[KO-097, KO-139] open %s", (_what, access, principal, deployed, expected) => {
    const { executor } = setUp({ access }, deployed);
    const decision = executor.authorize("look", callerFor(principal));
    expect(decision.kind === "refused" ? decision.refusal.reason : decision.kind).toBe(expected);
  });

  it("allow a tool over several entities when one of them is open to the caller", () => {
    const entityAccess = new Map([
      ["Note", scoped],
      ["Tag", open],
    ]);
    expect(setUp({ entityAccess }).executor.authorize("look", callerFor(ann))).toEqual({ kind: "allowed" });
    entityAccess.delete("Tag");
    expect(setUp({ entityAccess }).executor.authorize("look", callerFor(ann))).toMatchObject({ kind: "refused" });
    expect(setUp().executor.authorize("other", callerFor(ann))).toEqual({ kind: "unknown" });
  });

  it("do not depend on the transport over REST", () => {
    const { executor } = setUp({ access: { ...open, enabledTransports: ["stdio"] } });
    expect(executor.authorize("look", callerFor(ann))).toEqual({ kind: "unknown" });
    expect(executor.authorize("look", callerFor(ann, "rest"))).toEqual({ kind: "allowed" });
  });
});
