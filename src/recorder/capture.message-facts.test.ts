import { describe, expect, it } from "vitest";

import { messageOf } from "../../test/support/messages.ts";
import { metadataOf } from "../protocol/metadata.ts";
import { factsOf } from "./capture.ts";

const related = { "io.modelcontextprotocol/related-task": { taskId: "t9" } };
const messages: readonly object[] = [
  { id: 7, method: "tools/call", params: { name: "weigh", arguments: {} } },
  { id: "x", method: "tools/call", params: { name: 5 } },
  { id: 7, method: "tools/call", params: { name: "weigh", _meta: related } },
  { id: 8, method: "prompts/get", params: { name: "greet" } },
  { id: 8, method: "resources/read", params: { uri: "file:///a" } },
  { id: 9, method: "tasks/get", params: { taskId: "t1" } },
  { id: 9, method: "tasks/get", params: { taskId: 4 } },
  { id: 10, method: "x/own", params: { name: "weigh" } },
  { method: "notifications/progress", params: { progressToken: 1, progress: 2 } },
  { method: "notifications/message" },
  { id: 1, result: {} },
  { id: 1, result: { isError: true, content: [] } },
  { id: 1, result: { isError: "true" } },
  { id: 1, result: { resultType: "input_required", inputRequests: {} } },
  { id: 1, result: { resultType: 3 } },
  { id: 1, result: { taskId: "t2", status: "working" } },
  { id: 1, result: { task: { taskId: "t3" } } },
  { id: 1, result: { _meta: related } },
  { id: 1, error: { code: -32_602, message: "no" } },
];

describe("what records want to know of a message", () => {
  it.each(messages)("is what its metadata says: %j", (members) => {
    const message = messageOf({ jsonrpc: "2.0", ...members });
    const { id, method, target, taskId, resultType, errorCode, isToolError } = metadataOf(message);
    const expected = { method, taskId, resultType, errorCode, isToolError };
    expect(factsOf(message)).toEqual({ id: id?.key, target: target?.name, ...expected });
  });
});
