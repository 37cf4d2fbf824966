import { describe, expect, it } from "vitest";
import { createCorrelationBench } from "../../../test/support/correlation.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { ScopeDescriptor } from "./entry.ts";

const up = "client-to-server";
const down = "server-to-client";
const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "files alice" };
const progress = (value: number, progressToken: string = "p") =>
  notificationOf("notifications/progress", { progressToken, progress: value });
const taskCall = (id = 1, progressToken = "p") =>
  requestOf("tools/call", { name: "weigh", task: { ttl: 60_000 }, _meta: { progressToken } }, id);
const created = (id = 1, taskId = "tk-1") => resultOf({ task: { taskId, status: "working" } }, id);
const status = (state: string) => notificationOf("notifications/tasks/status", { taskId: "tk-1", status: state });

function createTask() {
  const bench = createCorrelationBench();
  const scope = bench.correlator.scope(session);
  scope.open(up, taskCall(), "call");
  scope.settle(down, created());
  return { ...bench, scope };
}

describe("the progress token of a task", () => {
  it("[SC-055] lives on after the answer that made the task", () => {
    const { scope, diagnostics, finished } = createTask();
    expect(finished).toEqual(["ok call"]);
    expect(scope.notify(down, progress(1))).toMatchObject({
      type: "progress",
      entry: { method: "tools/call", state: "ok", payload: undefined },
    });
    expect(scope.notify(down, progress(1)).type).toBe("stray");
    expect(diagnostics).toEqual(["progress.not-rising undefined"]);
  });

  it.each(["completed", "failed", "cancelled"])("[SC-055] ends when the task is reported %s", (state) => {
    const { scope, diagnostics } = createTask();
    scope.notify(down, status("working"));
    expect(scope.notify(down, progress(1)).type).toBe("progress");
    scope.notify(down, status(state));
    expect(scope.notify(down, progress(2)).type).toBe("stray");
    expect(diagnostics).toEqual(["progress.after-end"]);
  });

  it.each([
    ["tasks/result", { content: [] }],
    ["tasks/get", { taskId: "tk-1", status: "completed" }],
    ["tasks/cancel", { taskId: "tk-1", status: "cancelled" }],
  ])("[SC-055] ends with the answer to %s", (method, result) => {
    const { scope } = createTask();
    scope.open(up, requestOf(method, { taskId: "tk-1" }, 2), method);
    expect(scope.notify(down, progress(1)).type).toBe("progress");
    scope.settle(down, resultOf(result, 2));
    expect(scope.notify(down, progress(2)).type).toBe("stray");
  });

  it("survives news of other tasks, of the other side, and of work still going on", () => {
    const { scope } = createTask();
    scope.notify(down, notificationOf("notifications/tasks/status", { taskId: "tk-2", status: "completed" }));
    scope.notify(up, status("completed"));
    scope.open(up, requestOf("tasks/get", { taskId: "tk-1" }, 2), "get");
    scope.settle(down, resultOf({ taskId: "tk-1", status: "working" }, 2));
    expect(scope.notify(down, progress(1)).type).toBe("progress");
  });

  it("ends with the request where no task was asked for or made", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", { _meta: { progressToken: "p" } }, 1), "no task wanted");
    scope.settle(down, created(1));
    expect(scope.notify(down, progress(1)).type).toBe("stray");
    scope.open(up, taskCall(2), "no task made");
    scope.settle(down, resultOf({ content: [] }, 2));
    expect(scope.notify(down, progress(1)).type).toBe("stray");
  });

  it("[SC-058] ends with the scope", () => {
    const { scope } = createTask();
    scope.end();
    expect(scope.notify(down, progress(1)).type).toBe("stray");
  });

  it("gives way to newer ones at the bound", () => {
    const { correlator } = createCorrelationBench({ limits: { perScope: 2 } });
    const scope = correlator.scope(session);
    for (const id of [1, 2, 3]) {
      scope.open(up, taskCall(id, `p${id}`), "");
      scope.settle(down, created(id, `tk-${id}`));
    }
    const types = [1, 2, 3].map((id) => scope.notify(down, progress(1, `p${id}`)).type);
    expect(types).toEqual(["stray", "progress", "progress"]);
  });

  it("is found by a task id of any length", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    const taskId = "t".repeat(10_000);
    scope.open(up, taskCall(), "");
    scope.settle(down, created(1, taskId));
    expect(scope.notify(down, progress(1)).type).toBe("progress");
    scope.notify(down, notificationOf("notifications/tasks/status", { taskId, status: "completed" }));
    expect(scope.notify(down, progress(2)).type).toBe("stray");
  });
});
