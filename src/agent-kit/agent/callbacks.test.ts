import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
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

const unencodable: readonly (readonly [string, object])[] = [
  ["a BigInt", { a: 1n }],
  ["a cycle", Object.assign({}, ...[{}].map((inner) => ({ inner: Object.assign(inner, { inner }) })))],
  [
    "a getter that throws",
    {
      get a(): never {
        throw new Error("no value");
      },
    },
  ],
  ["a toJSON that gives nothing", { toJSON: () => undefined }],
];
const noObjects = [true, "allow", "deny", 1, [], () => ({})];

describe("decidePermission, where a program of JavaScript gives it", () => {
  const denied = { behavior: "deny", message: "The permission could not be decided." };
  const given = async (answer: unknown, warnings: AgentError[] = []) =>
    // What the types rule out, programs of JavaScript return all the same.
    decided((() => answer) as CanUseTool, warnings);

  const unusable: readonly (readonly [string, unknown])[] = [
    ...noObjects.map((answer) => [String(answer), answer] as const),
    ["nothing", undefined],
    ["null", null],
    ["another word", { behavior: "ask" }],
    ["another spelling", { behavior: "Allow" }],
    ["a list as input", { behavior: "allow", updatedInput: [] }],
    ["a text as input", { behavior: "allow", updatedInput: "x" }],
    ...unencodable.map(([what, updatedInput]) => [`${what} as input`, { behavior: "allow", updatedInput }] as const),
  ];

  it.each(unusable)("[IP-061] denies with a warning for %s", async (_what, answer) => {
    const warnings: AgentError[] = [];
    expect(await given(answer, warnings)).toEqual(denied);
    expect(warnings.map(({ code }) => code)).toEqual(["callback_failed"]);
  });

  it("[IP-061] always tells why a call was denied, and interrupts for true alone", async () => {
    const message = "The call was denied.";
    expect(await given({ behavior: "deny" })).toEqual({ behavior: "deny", message });
    expect(await given({ behavior: "deny", message: 5, interrupt: "no" })).toEqual({ behavior: "deny", message });
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

  const input = { hook_event_name: "PreToolUse" };
  const pre = (permissionDecision: unknown) => ({
    hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision },
  });

  const ignored: readonly (readonly [string, unknown])[] = [
    ...noObjects.map((answer) => [String(answer), answer] as const),
    ...unencodable,
    ["a decision in another spelling", pre("Deny")],
    ["a decision that is no word", pre(false)],
    ["an old decision in another spelling", { decision: "BLOCK" }],
    [
      "the output of another event",
      { hookSpecificOutput: { hookEventName: "PostToolUse", permissionDecision: "deny" } },
    ],
    ["the output of no event", { hookSpecificOutput: { permissionDecision: "deny" } }],
    ["an output that is no object", { hookSpecificOutput: "deny" }],
  ];

  it.each(ignored)("denies for a PreToolUse hook that answers %s, with a warning", async (_what, answer) => {
    const warnings: AgentError[] = [];
    const hooks = { PreToolUse: [{ hooks: [(() => answer) as () => void] }] };
    const run = async (onFailure: "deny" | "continue") =>
      createHookRegistry(hooks, onFailure, (warning) => warnings.push(warning)).run(
        { callback_id: "hook_0", input },
        signal,
      );
    expect(await run("deny")).toMatchObject(pre("deny"));
    await expect(run("continue")).rejects.toThrow(/returned|JSON|its|circular|BigInt|no value/u);
    expect(warnings.map(({ code }) => code)).toEqual(["callback_failed", "callback_failed"]);
  });

  it.each([[pre("allow")], [pre("ask")], [{ continue: true }], [{ decision: "approve" }], [undefined], [null]])(
    "passes %j on",
    async (answer) => {
      const hooks = { PreToolUse: [{ hooks: [(() => answer) as () => void] }] };
      expect(await createHookRegistry(hooks).run({ callback_id: "hook_0", input }, signal)).toEqual(answer ?? {});
    },
  );

  it("denies before the CLI gives a hook up, and aborts it", async () => {
    const time = createFakeTime();
    const signals: AbortSignal[] = [];
    const hang = async (_input: unknown, { signal: own }: { readonly signal: AbortSignal }) => {
      signals.push(own);
      await new Promise(() => {});
    };
    const hooks = { PreToolUse: [{ timeoutSeconds: 10, hooks: [hang] }] };
    const answer = createHookRegistry(hooks, "deny", () => {}, time.setTimer).run(
      { callback_id: "hook_0", input },
      signal,
    );
    await time.advance(8999);
    expect(signals[0]?.aborted).toBe(false);
    await time.advance(1);
    expect(await answer).toMatchObject(pre("deny"));
    expect([signals[0]?.aborted, time.pending()]).toEqual([true, 0]);
  });

  it("refuses hooks that would never run, or never in time", () => {
    for (const matcher of ["mcp__calc__(", "[", "*x"])
      expect(() => createHookRegistry({ PreToolUse: [{ matcher, hooks: [] }] })).toThrow("is not a pattern");
    for (const timeoutSeconds of [0, -1, Number.NaN])
      expect(() => createHookRegistry({ Stop: [{ timeoutSeconds, hooks: [] }] })).toThrow("more than 0");
    expect(createHookRegistry({ PreToolUse: [{ matcher: "*", hooks: [] }] }).registration).not.toBeNull();
  });

  it("registers nothing where there are no hooks", () => {
    expect(createHookRegistry().registration).toBeNull();
  });
});
