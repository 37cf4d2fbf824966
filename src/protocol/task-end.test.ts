import { describe, expect, it } from "vitest";
import { messageOf, notificationOf, resultOf } from "../../test/support/messages.ts";
import { createdTaskIn, endedTaskIn, saysTaskEnded } from "./task-end.ts";

const status = (value: unknown) =>
  notificationOf("notifications/tasks/status", { taskId: "t", status: value });

describe("the life of a task", () => {
  it.each(["completed", "failed", "cancelled"])("ends with the status %s", (final) => {
    expect(endedTaskIn(status(final))).toBe("t");
    expect(saysTaskEnded("tasks/get", resultOf({ taskId: "t", status: final }))).toBe(true);
  });

  it.each(["working", "input_required", "", 5, null, undefined])("goes on with the status %s", (going) => {
    expect(endedTaskIn(status(going))).toBeUndefined();
    expect(saysTaskEnded("tasks/get", resultOf({ taskId: "t", status: going }))).toBe(false);
  });

  it("has ended when tasks/result is answered, with whatever", () => {
    const error = messageOf({ jsonrpc: "2.0", id: 1, error: { code: -32603, message: "failed" } });
    expect([saysTaskEnded("tasks/result", error), saysTaskEnded("tasks/get", error)]).toEqual([true, false]);
    expect(saysTaskEnded("tasks/result", resultOf({ content: [] }))).toBe(true);
  });

  it("begins with a result that holds a task with an id", () => {
    expect(createdTaskIn(resultOf({ task: { taskId: "t", status: "working" } }))).toBe("t");
    expect(
      [{ content: [] }, { task: "t" }, { task: { taskId: 5 } }, { task: null }].map((result) =>
        createdTaskIn(resultOf(result)),
      ),
    ).toEqual([undefined, undefined, undefined, undefined]);
  });

  it("is told by its own notification only", () => {
    expect(
      endedTaskIn(notificationOf("notifications/message", { taskId: "t", status: "completed" })),
    ).toBeUndefined();
    expect(endedTaskIn(notificationOf("notifications/tasks/status"))).toBeUndefined();
  });
});
