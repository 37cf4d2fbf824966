import { describe, expect, it } from "vitest";

import type { AgentError } from "../errors.ts";
import { type CanUseTool, createHookRegistry, decidePermission, type PermissionRequest } from "./callbacks.ts";

const { signal } = new AbortController();
const asked = {
  subtype: "can_use_tool",
  tool_name: "mcp__calc__add",
  input: { a: 1 },
  mcp_server: { name: "calc", source: "sdk" },
  tool_use_id: "toolu_1",
};

async function decided(canUseTool: CanUseTool, warnings: AgentError[] = [], request: object = asked) {
  return decidePermission(canUseTool, { ...request }, signal, (warning) => warnings.push(warning));
}

describe("decidePermission", () => {
  it("[IP-061] answers with the decision, and the input that it had unless told another", async () => {
    expect(await decided(() => ({ behavior: "allow" }))).toEqual({
      behavior: "allow",
      updatedInput: { a: 1 },
    });
    expect(await decided(() => ({ behavior: "allow", updatedInput: { a: 2 } }))).toEqual({
      behavior: "allow",
      updatedInput: { a: 2 },
    });
    expect(await decided(async () => ({ behavior: "deny", message: "no" }))).toEqual({
      behavior: "deny",
      message: "no",
    });
    expect(await decided(() => ({ behavior: "deny", message: "no", interrupt: true }))).toEqual({
      behavior: "deny",
      message: "no",
      interrupt: true,
    });
  });

  it("[IP-062] shows where the server comes from", async () => {
    const seen: PermissionRequest[] = [];
    const note: CanUseTool = (request) => {
      seen.push(request);
      return { behavior: "deny", message: "no" };
    };
    await decided(note);
    await decided(note, [], { tool_name: "Bash" });
    expect(seen).toMatchObject([
      { toolName: "mcp__calc__add", server: { name: "calc", source: "sdk" }, toolUseId: "toolu_1" },
      { toolName: "Bash", input: {}, server: undefined, toolUseId: undefined },
    ]);
  });

  it("denies when the callback fails, with a warning", async () => {
    const warnings: AgentError[] = [];
    const answer = await decided(() => {
      throw new Error("database down");
    }, warnings);
    expect(answer).toEqual({ behavior: "deny", message: "The permission could not be decided." });
    expect(warnings).toMatchObject([{ code: "callback_failed", message: expect.stringMatching(/database down/u) }]);
  });
});

describe("createHookRegistry", () => {
  it("[IP-064] registers hooks by id and matcher, and runs the one that is asked for", async () => {
    const deny = { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny" } };
    const inputs: unknown[] = [];
    const table = createHookRegistry({
      PreToolUse: [{ matcher: "mcp__calc__.*", timeoutSeconds: 10, hooks: [() => deny] }],
      PostToolUse: [
        {
          hooks: [
            (input, { toolUseId }) => {
              inputs.push([input, toolUseId]);
            },
          ],
        },
      ],
    });
    expect(table.registration).toEqual({
      PreToolUse: [{ matcher: "mcp__calc__.*", hookCallbackIds: ["hook_0"], timeout: 10 }],
      PostToolUse: [{ hookCallbackIds: ["hook_1"] }],
    });
    expect(await table.run({ callback_id: "hook_0", input: {} }, signal)).toEqual(deny);
    const input = { hook_event_name: "PostToolUse", tool_response: "42" };
    expect(await table.run({ callback_id: "hook_1", input, tool_use_id: "toolu_1" }, signal)).toEqual({});
    expect(await table.run({ callback_id: "hook_1" }, signal)).toEqual({});
    expect(inputs).toEqual([
      [input, "toolu_1"],
      [{}, undefined],
    ]);
    await expect(table.run({ callback_id: "hook_9" }, signal)).rejects.toMatchObject({
      code: "callback_failed",
    });
  });

  const events = [
    ["PreToolUse", { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny" } }],
    ["PermissionRequest", { hookSpecificOutput: { decision: { behavior: "deny" } } }],
    ["UserPromptSubmit", { decision: "block" }],
  ] as const;

  it.each(events)("denies what waits for a %s hook that throws, with a warning", async (event, denial) => {
    const broken = () => {
      throw new Error("database down");
    };
    const run = async (onFailure: "deny" | "continue", warnings: AgentError[]) =>
      createHookRegistry({ [event]: [{ hooks: [broken] }] }, onFailure, (warning) => warnings.push(warning)).run(
        { callback_id: "hook_0", input: { hook_event_name: event } },
        signal,
      );
    const warnings: AgentError[] = [];
    expect(await run("deny", warnings)).toMatchObject(denial);
    await expect(run("continue", warnings)).rejects.toThrow("database down");
    expect(warnings.map(({ code, message }) => [code, message])).toEqual([
      ["callback_failed", `a ${event} hook failed: database down`],
      ["callback_failed", `a ${event} hook failed: database down`],
    ]);
  });

  it("registers nothing where there are no hooks", () => {
    expect(createHookRegistry().registration).toBeNull();
  });
});
