import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom } from "../../../../test/support/exchange.ts";
import { notificationOf, requestOf } from "../../../../test/support/messages.ts";
import { principalNamed } from "../../../../test/support/principals.ts";
import type { TaskOwnerStore } from "../../../sessions/task-owner-store.ts";
import { createTaskOwners } from "./task-owners.ts";

const [ann, bob] = [principalNamed("ann"), principalNamed("bob")];

function ownersWithTask(store?: TaskOwnerStore, wall = () => 0) {
  const guard = createTaskOwners({ wall, now: () => 0 }, store);
  const call = exchangeWith(requestOf("tools/call", { name: "rows" }), { principal: ann });
  expect(guard.enter(call)).toBeUndefined();
  guard.answered(call, { message: messageFrom('{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t-1"}}}') });
  return guard;
}

describe("the owners of tasks", () => {
  it.each(["tasks/get", "tasks/cancel", "tasks/result"])("alone may send %s", (method) => {
    const guard = ownersWithTask();
    const request = requestOf(method, { taskId: "t-1" });
    expect(guard.enter(exchangeWith(request, { principal: ann }))).toBeUndefined();
    expect(guard.enter(exchangeWith(request, { principal: bob }))?.message).toBe("unknown task");
  });

  it.each([365 * 86_400_000, -3_600_000])("are known when the clock jumps by %i ms", (jump) => {
    let wall = 0;
    const guard = ownersWithTask(undefined, () => wall);
    wall = jump;
    const request = requestOf("tasks/get", { taskId: "t-1" });
    expect(guard.enter(exchangeWith(request, { principal: ann }))).toBeUndefined();
    expect(guard.enter(exchangeWith(request, { principal: bob }))?.message).toBe("unknown task");
  });

  it("are known after a restart, where they are kept", () => {
    const kept = new Map<string, string>();
    const store = {
      get: (task: string) => kept.get(task),
      set: (task: string, owner: string) => void kept.set(task, owner),
      close: () => {},
    };
    ownersWithTask(store);
    const restarted = createTaskOwners({ wall: () => 0, now: () => 0 }, store);
    const request = requestOf("tasks/get", { taskId: "t-1" });
    expect(restarted.enter(exchangeWith(request, { principal: ann }))).toBeUndefined();
    expect(restarted.enter(exchangeWith(request, { principal: bob }))?.message).toBe("unknown task");
  });

  it("alone may report about a task, except for tasks that clients started themselves", () => {
    const guard = ownersWithTask();
    const report = (taskId: string) => notificationOf("notifications/tasks/status", { taskId, status: "failed" });
    expect(guard.enter(exchangeWith(report("t-1"), { principal: ann }))).toBeUndefined();
    expect(guard.enter(exchangeWith(report("t-1"), { principal: bob }))?.message).toBe("unknown task");
    expect(guard.enter(exchangeWith(report("of-the-client"), { principal: bob }))).toBeUndefined();
    const told = exchangeWith(report("t-1"), { principal: bob, direction: "server-to-client" });
    expect(guard.enter(told)).toBeUndefined();
  });

  it.each([
    ["a call", (meta: object) => requestOf("tools/call", { name: "rows", _meta: meta })],
    ["a request", (meta: object) => requestOf("resources/read", { uri: "x://1", _meta: meta })],
    ["a notification", (meta: object) => notificationOf("notifications/progress", { _meta: meta })],
    ["an answer", (meta: object) => messageFrom(JSON.stringify({ jsonrpc: "2.0", id: 1, result: { _meta: meta } }))],
  ])("alone may send %s that belongs to a task", (_what, write) => {
    const guard = ownersWithTask();
    const message = write({ "io.modelcontextprotocol/related-task": { taskId: "t-1" } });
    expect(guard.enter(exchangeWith(message, { principal: ann }))).toBeUndefined();
    expect(guard.enter(exchangeWith(message, { principal: bob }))?.message).toBe("unknown task");
    const own = write({ "io.modelcontextprotocol/related-task": { taskId: "of-the-client" } });
    expect(guard.enter(exchangeWith(own, { principal: bob }))).toBeUndefined();
  });
});
