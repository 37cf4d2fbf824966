import { describe, expect, it } from "vitest";
import { metadataOf, createdTaskId, endedTaskId, reportsTaskEnd } from "./metadata.ts";
import { parseMessage } from "./parse.ts";
import { messageOf, notificationOf, resultOf } from "../../test/support/messages.ts";

function metadata(value: unknown, hints?: { session?: string; revision?: string }) {
  const outcome = parseMessage(value, { revision: "2025-11-25", mode: "observe" });
  if (!outcome.ok) throw new Error(outcome.failure.message);
  return metadataOf(outcome.message, hints);
}

const request = (method: string, params?: unknown) => ({
  jsonrpc: "2.0",
  id: 7,
  method,
  ...(params ? { params } : {}),
});
const metaKey = (name: string) => `io.modelcontextprotocol/${name}`;

describe("metadata", () => {
  it("[SC-023] of a tool call has everything that correlation and policy need", () => {
    const call = request("tools/call", {
      name: "weigh",
      arguments: { crate: "C7" },
      _meta: {
        progressToken: "p-1",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        tracestate: "v=1",
        [metaKey("protocolVersion")]: "2026-07-28",
        [metaKey("related-task")]: { taskId: "tk-5" },
      },
    });
    expect(metadata(call, { session: "s-1", revision: "2025-06-18" })).toEqual({
      kind: "request",
      id: { key: "n:7", json: "7" },
      method: "tools/call",
      target: { type: "tool", name: "weigh" },
      expectsResponse: true,
      progressToken: { key: "s:p-1", json: '"p-1"' },
      trace: {
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        tracestate: "v=1",
        baggage: undefined,
      },
      related: undefined,
      taskId: "tk-5",
      resultType: undefined,
      errorCode: undefined,
      isToolError: false,
      size: JSON.stringify(call).length,
      session: "s-1",
      revision: "2026-07-28",
      diagnostics: [],
    });
  });

  it("[SC-023] names prompts, resources and tasks as targets", () => {
    expect(metadata(request("prompts/get", { name: "p" })).target).toEqual({ type: "prompt", name: "p" });
    expect(metadata(request("resources/read", { uri: "dock://4" })).target).toEqual({
      type: "resource",
      name: "dock://4",
    });
    expect(metadata(request("tasks/get", { taskId: "t" })).target).toEqual({ type: "task", name: "t" });
    expect(metadata(request("tools/list", { name: "not a target" })).target).toBeUndefined();
  });

  it("[SC-023] relates cancellations, progress and subscription messages to their requests", () => {
    const notification = (method: string, params: unknown) => ({ jsonrpc: "2.0", method, params });
    expect(metadata(notification("notifications/cancelled", { requestId: 0 })).related).toMatchObject({
      type: "cancel",
      id: { key: "n:0" },
    });
    expect(metadata(notification("notifications/progress", { progressToken: "0", progress: 1 })).related).toMatchObject(
      {
        type: "progress",
        id: { key: "s:0" },
      },
    );
    const changed = notification("notifications/tools/list_changed", {
      _meta: { [metaKey("subscriptionId")]: "L1" },
    });
    expect(metadata(changed).related).toMatchObject({ type: "subscription", id: { key: "s:L1" } });
    const ended = { jsonrpc: "2.0", id: "L1", result: { _meta: { [metaKey("subscriptionId")]: "L1" } } };
    expect(metadata(ended).related).toMatchObject({ type: "subscription" });
  });

  it("[SC-023] of responses has result type, tool error, task and error code", () => {
    const result = (value: unknown) => metadata({ jsonrpc: "2.0", id: 1, result: value });
    expect(result({ isError: true, content: [] }).isToolError).toBe(true);
    expect(result({ resultType: "input_required" }).resultType).toBe("input_required");
    expect(result({ resultType: "task", taskId: "tk-9" }).taskId).toBe("tk-9");
    expect(result({ task: { taskId: "tk-5", status: "working" } }).taskId).toBe("tk-5");
    expect(result({ protocolVersion: "2025-06-18" }).revision).toBe("2025-06-18");
    expect(metadata({ jsonrpc: "2.0", id: 1, error: { code: -32002, message: "no" } }).errorCode).toBe(-32002);
  });

  it("[SC-024] treats optional members of the wrong type as absent, with a diagnostic", () => {
    const odd = metadata(request("tools/call", { name: 5, _meta: { progressToken: 1.5, traceparent: {} } }));
    expect(odd.target).toBeUndefined();
    expect(odd.progressToken).toBeUndefined();
    expect(odd.trace).toBeUndefined();
    expect(odd.diagnostics.map(({ code, path }) => [code, path])).toEqual([
      ["metadata.type", "/params/name"],
      ["metadata.type", "/params/_meta/progressToken"],
      ["metadata.type", "/params/_meta/traceparent"],
    ]);
    const answer = metadata({ jsonrpc: "2.0", id: 1, result: { isError: "yes", resultType: 1, task: [] } });
    expect(answer).toMatchObject({ isToolError: false, resultType: undefined, taskId: undefined });
    expect(answer.diagnostics).toHaveLength(3);
  });

  it("points into _meta with escaped slashes", () => {
    const key = "io.modelcontextprotocol/protocolVersion";
    const { diagnostics } = metadata({ jsonrpc: "2.0", id: 1, method: "ping", params: { _meta: { [key]: 1 } } });
    expect(diagnostics.map(({ path }) => path)).toEqual(["/params/_meta/io.modelcontextprotocol~1protocolVersion"]);
  });
});

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
