import { describe, expect, it } from "vitest";

import { newestModern } from "../../src/protocol/revisions.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { startProcess } from "../support/process.ts";
import { post } from "../support/raw-http.ts";

interface Request {
  readonly id: number;
  readonly method: string;
}

/** A request that declares the Tasks extension, which no official client does yet. */
function request(id: number, method: string, params: object): Request {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": newestModern,
    "io.modelcontextprotocol/clientCapabilities": {
      elicitation: {},
      extensions: { "io.modelcontextprotocol/tasks": {} },
    },
  };
  return { jsonrpc: "2.0", id, method, params: { ...params, _meta } } as Request;
}

/** Begins a task, answers its question and gets its result; `name` is what the header repeats. */
async function expectTaskToLive(send: (message: Request, name: string) => Promise<unknown>): Promise<void> {
  const call = request(1, "tools/call", { name: "confirm_delete", arguments: { filename: "a.txt" } });
  const created = await send(call, "confirm_delete");
  expect(created).toMatchObject({
    result: { resultType: "task", status: "working", taskId: expect.any(String) as string },
  });
  const { taskId } = (created as { readonly result: { readonly taskId: string } }).result;

  expect(await send(request(2, "tasks/get", { taskId }), taskId)).toMatchObject({
    result: {
      resultType: "complete",
      status: "input_required",
      inputRequests: { confirm: { method: "elicitation/create" } },
    },
  });
  const inputResponses = { confirm: { action: "accept", content: { confirm: "yes" } } };
  expect(await send(request(3, "tasks/update", { taskId, inputResponses }), taskId)).toMatchObject({
    result: { resultType: "complete" },
  });
  expect(await send(request(4, "tasks/get", { taskId }), taskId)).toMatchObject({
    result: { status: "completed", result: { content: [{ type: "text" }] } },
  });
}

describe("a task of the everything server", () => {
  it("lives from call to result over HTTP", async () => {
    await using fixture = await startFixture({ era: "modern" });
    await expectTaskToLive(async (message, name) => {
      const { json } = await post(fixture.url, message, {
        "mcp-protocol-version": newestModern,
        "mcp-method": message.method,
        "mcp-name": name,
      });
      return json;
    });
  });

  it("lives from call to result on stdio", async () => {
    await using child = await startProcess(stdioFixture({ era: "dual" }));
    await expectTaskToLive(async (message) => {
      child.stdin.write(`${JSON.stringify(message)}\n`);
      const [line] = await child.waitForLine(new RegExp(`^.*"id":${message.id}\\b.*$`, "u"));
      return JSON.parse(line) as unknown;
    });
  });
});
