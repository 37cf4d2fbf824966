import { describe, expect, it } from "vitest";
import { messageOf, notificationOf, resultOf } from "../../test/support/messages.ts";
import { createdTaskId, endedTaskId, reportsTaskEnd } from "./metadata.ts";

const status = (value: unknown) => notificationOf("notifications/tasks/status", { taskId: "t", status: value });

describe("the life of a task", () => {
  it.each(["completed", "failed", "cancelled"])("ends with the status %s", (final) => {
    expect(endedTaskId(status(final))).toBe("t");
    expect(reportsTaskEnd("tasks/get", resultOf({ taskId: "t", status: final }))).toBe(true);
  });

  it.each(["working", "input_required", "", 5, null, undefined])("goes on with the status %s", (going) => {
    expect(endedTaskId(status(going))).toBeUndefined();
    expect(reportsTaskEnd("tasks/get", resultOf({ taskId: "t", status: going }))).toBe(false);
  });

  it("has ended with any response to tasks/result", () => {
    const error = messageOf({ jsonrpc: "2.0", id: 1, error: { code: -32603, message: "failed" } });
    expect([reportsTaskEnd("tasks/result", error), reportsTaskEnd("tasks/get", error)]).toEqual([true, false]);
    expect(reportsTaskEnd("tasks/result", resultOf({ content: [] }))).toBe(true);
  });

  it("begins with a result that holds a task with an id", () => {
    expect(createdTaskId(resultOf({ task: { taskId: "t", status: "working" } }))).toBe("t");
    expect(
      [{ content: [] }, { task: "t" }, { task: { taskId: 5 } }, { task: null }].map((result) =>
        createdTaskId(resultOf(result)),
      ),
    ).toEqual([undefined, undefined, undefined, undefined]);
  });

  it("is reported by its own notification only", () => {
    expect(endedTaskId(notificationOf("notifications/message", { taskId: "t", status: "completed" }))).toBeUndefined();
    expect(endedTaskId(notificationOf("notifications/tasks/status"))).toBeUndefined();
  });
});
