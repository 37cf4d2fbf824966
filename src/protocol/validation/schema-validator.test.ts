import { describe, expect, it } from "vitest";

import { envelopeOf, messageOf, notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { Diagnostic } from "../diagnostics.ts";
import type { Message } from "../message.ts";
import { methodFacts, methodNames } from "../methods.ts";
import { type Revision, revisionNames } from "../revisions.ts";
import { createMessageSchemas } from "./schema/message-schemas.ts";
import { loadSchemaValidator, type SchemaValidator } from "./schema-validator.ts";

const validators = new Map<Revision, SchemaValidator>();
for (const revision of revisionNames) validators.set(revision, await loadSchemaValidator(revision));

function check(revision: Revision, message: Message, requestMethod?: string): readonly Diagnostic[] {
  const validator = validators.get(revision);
  if (validator === undefined) throw new Error(`no validator of ${revision}`);
  return validator.check(message, requestMethod);
}

/** The revisions whose schema finds nothing. */
const accepting = (message: Message, requestMethod?: string) =>
  revisionNames.filter((revision) => check(revision, message, requestMethod).length === 0);

const places = (diagnostics: readonly Diagnostic[]) => diagnostics.map(({ code, path }) => `${code} ${path}`);
const from = (revision: Revision) => revisionNames.slice(revisionNames.indexOf(revision));
const upTo = (revision: Revision) => revisionNames.slice(0, revisionNames.indexOf(revision) + 1);

const legacy = upTo("2025-11-25");
const text = { type: "text", text: "412 kg" };
const complete = { resultType: "complete" };
const fresh = { ...complete, ttlMs: 0, cacheScope: "private" };
/** Parameters that carry an envelope, so that every revision takes them. */
const call = (method: string, params: Record<string, unknown> = {}) =>
  requestOf(method, { ...params, _meta: envelopeOf() });

describe("findings", () => {
  it("[SC-027] name a JSON Pointer, the rule and the expected type", () => {
    expect(check("2025-11-25", requestOf("tools/call", { name: 5 }))).toEqual([
      {
        code: "schema.type",
        severity: "warn",
        path: "/params/name",
        message: '/params/name breaks the rule "type": expected string',
        data: { rule: "type", expected: "string" },
      },
    ]);
  });

  it.each([
    [requestOf("tools/call", { name: "n", arguments: [] }), "object"],
    [requestOf("tools/call", { name: "n", arguments: null }), "object"],
    [requestOf("tools/call", { name: "n", task: { ttl: "x" } }), "number"],
    [requestOf("sampling/createMessage", { messages: [], maxTokens: 1.5 }), "integer"],
    [requestOf("resources/read"), "object"],
  ])("[SC-027] name types as JSON does", (message, expected) => {
    expect(check("2025-11-25", message)[0]?.data).toMatchObject({ expected });
  });

  it("[SC-027] tell a missing member from one of the wrong type", () => {
    expect(places(check("2025-11-25", requestOf("tools/call", {})))).toEqual(["schema.required /params/name"]);
    expect(places(check("2025-11-25", requestOf("tools/call")))).toEqual(["schema.required /params"]);
    expect(places(check("2025-11-25", requestOf("resources/read", { uri: null })))).toEqual([
      "schema.type /params/uri",
    ]);
  });

  it("[SC-027] escape slashes and tildes in the pointer", () => {
    const params = { ref: { type: "ref/prompt", name: "n" }, argument: { name: "a", value: "v" } };
    const message = call("completion/complete", { ...params, context: { arguments: { "a/b~c": 5 } } });
    expect(places(check("2026-07-28", message))).toEqual(["schema.type /params/context/arguments/a~1b~0c"]);
    const meta = { ...envelopeOf(), "io.modelcontextprotocol/logLevel": "loud" };
    expect(places(check("2026-07-28", requestOf("tools/list", { _meta: meta })))).toEqual([
      "schema.enum /params/_meta/io.modelcontextprotocol~1logLevel",
    ]);
  });

  it("[SC-027] report the branch that was meant", () => {
    const broken = resultOf({ content: [text, { type: "resource", resource: { uri: "a:b", text: 5 } }] });
    expect(places(check("2025-11-25", broken, "tools/call"))).toEqual(["schema.type /result/content/1/resource/text"]);
    const message = requestOf("elicitation/create", { mode: "url", message: "m", url: "https://x" });
    expect(places(check("2025-11-25", message))).toEqual(["schema.required /params/elicitationId"]);
  });

  it("are limited in number, however long a broken list is", () => {
    const tools = Array.from({ length: 500 }, () => ({ name: 5 }));
    expect(check("2025-11-25", resultOf({ tools }), "tools/list")).toHaveLength(20);
  });
});

describe("what the schema does not know", () => {
  it("[SC-027] is allowed, in every revision and at every depth", () => {
    const args = { deep: [{ x: null }] };
    expect(accepting(call("tools/call", { name: "n", arguments: args, later: 1 }))).toEqual(revisionNames);
    const tool = { name: "n", inputSchema: { type: "object", "x-a": 1, $defs: {} }, "x-b": true };
    expect(accepting(resultOf({ ...fresh, tools: [tool], more: {} }), "tools/list")).toEqual(revisionNames);
  });

  it("is not judged: unknown methods, results of unknown requests, and members of later revisions", () => {
    expect(accepting(requestOf("tools/nope", { x: 1 }))).toEqual(revisionNames);
    expect(accepting(resultOf({ content: 5 }))).toEqual(revisionNames);
    expect(accepting(call("tools/call", { name: "n", task: 5 }))).not.toContain("2025-11-25");
    expect(accepting(call("tools/call", { name: "n", task: 5 }))).toHaveLength(4);
  });
});

describe("requests", () => {
  it.each(legacy)("[SC-073] initialize must be complete in %s", (revision) => {
    const hello = { protocolVersion: revision, capabilities: {}, clientInfo: { name: "kite", version: "1" } };
    expect(check(revision, requestOf("initialize", hello))).toEqual([]);
    expect(places(check(revision, requestOf("initialize", { ...hello, clientInfo: { name: "kite" } })))).toEqual([
      "schema.required /params/clientInfo/version",
    ]);
    expect(places(check(revision, requestOf("initialize", { capabilities: [] })))).toEqual([
      "schema.required /params/protocolVersion",
      "schema.type /params/capabilities",
      "schema.required /params/clientInfo",
    ]);
  });

  it("[SC-073] carry an envelope in the modern era and need none before", () => {
    expect(accepting(requestOf("tools/list"))).toEqual(legacy);
    expect(places(check("2026-07-28", requestOf("tools/list", { _meta: {} })))).toEqual([
      "schema.required /params/_meta/io.modelcontextprotocol~1protocolVersion",
      "schema.required /params/_meta/io.modelcontextprotocol~1clientCapabilities",
    ]);
  });

  it("[SC-073] take prompt arguments as texts and tool arguments as anything", () => {
    expect(accepting(call("prompts/get", { name: "n", arguments: { a: 1 } }))).toEqual([]);
    expect(accepting(call("prompts/get", { name: "n", arguments: { a: "1" } }))).toEqual(revisionNames);
    expect(accepting(call("tools/call", { name: "n", arguments: { a: 1 } }))).toEqual(revisionNames);
    expect(accepting(call("tools/call", { name: "n", arguments: [] }))).toEqual([]);
  });

  it("[SC-073] know the context of a completion from 2025-06-18 on", () => {
    const params = { ref: { type: "ref/resource", uri: "a{b}" }, argument: { name: "a", value: "v" } };
    expect(accepting(call("completion/complete", params))).toEqual(revisionNames);
    expect(accepting(call("completion/complete", { ...params, context: 5 }))).toEqual(upTo("2025-03-26"));
    expect(accepting(call("completion/complete", { ...params, ref: { type: "ref/tool", name: "n" } }))).toEqual([]);
  });

  it("[SC-073] take progress tokens of any size, but no fractions", () => {
    const withToken = (progressToken: unknown) =>
      requestOf("tools/list", { _meta: { ...envelopeOf(), progressToken } });
    for (const token of ["p", "", 0, -1, 2 ** 60]) expect(accepting(withToken(token))).toEqual(revisionNames);
    for (const token of [1.5, null, true, {}]) expect(accepting(withToken(token))).toEqual([]);
  });

  it("[SC-073] know tasks in 2025-11-25, and those of the extension in 2026-07-28", () => {
    expect(check("2025-11-25", requestOf("tasks/result", {}))).toHaveLength(1);
    expect(check("2025-06-18", requestOf("tasks/result", {}))).toEqual([]);
    expect(places(check("2026-07-28", call("tasks/update", { taskId: "t" })))).toEqual([
      "schema.required /params/inputResponses",
    ]);
  });

  it("[SC-073] must say what to listen to", () => {
    expect(check("2026-07-28", call("subscriptions/listen", { notifications: { toolsListChanged: true } }))).toEqual(
      [],
    );
    expect(places(check("2026-07-28", call("subscriptions/listen")))).toEqual([
      "schema.required /params/notifications",
    ]);
  });
});

describe("questions of a server", () => {
  const form = {
    message: "Which berth?",
    requestedSchema: { type: "object", properties: { n: { type: "integer" } } },
  };

  it("[SC-073] are forms from 2025-06-18 on, and URLs from 2025-11-25 on", () => {
    expect(check("2025-06-18", requestOf("elicitation/create", form))).toEqual([]);
    expect(check("2025-11-25", requestOf("elicitation/create", { ...form, mode: "form" }))).toEqual([]);
    const url = { mode: "url", message: "m", elicitationId: "e", url: "https://harbor.example/link/22" };
    expect(check("2025-11-25", requestOf("elicitation/create", url))).toEqual([]);
    expect(places(check("2025-06-18", requestOf("elicitation/create", url)))).toEqual([
      "schema.required /params/requestedSchema",
    ]);
  });

  it("[SC-073] ask for primitives only", () => {
    const nested = { type: "object", properties: { a: { type: "object", properties: {} } } };
    const message = requestOf("elicitation/create", { message: "m", requestedSchema: nested });
    expect(check("2025-06-18", message)).not.toEqual([]);
    expect(check("2025-11-25", message)).not.toEqual([]);
  });

  it("[SC-073] are answered by accept, decline or cancel", () => {
    const answer = (result: unknown) => check("2025-11-25", resultOf(result), "elicitation/create");
    expect(answer({ action: "accept", content: { n: 4, list: ["a"] } })).toEqual([]);
    expect(places(answer({ action: "maybe" }))).toEqual(["schema.enum /result/action"]);
    const list = resultOf({ action: "accept", content: { list: ["a"] } });
    expect(places(check("2025-06-18", list, "elicitation/create"))).toEqual(["schema.type /result/content/list"]);
  });

  it("[SC-073] may hold audio from 2025-03-26 on, and tools from 2025-11-25 on", () => {
    const sample = (content: unknown) =>
      requestOf("sampling/createMessage", { maxTokens: 5, messages: [{ role: "user", content }] });
    const knowing = (content: unknown) => legacy.filter((revision) => check(revision, sample(content)).length === 0);
    expect(knowing(text)).toEqual(legacy);
    expect(knowing({ type: "audio", data: "AAAA", mimeType: "audio/wav" })).toEqual(legacy.slice(1));
    expect(knowing([text])).toEqual(["2025-11-25"]);
    expect(knowing({ type: "tool_use", id: "1", name: "n", input: {} })).toEqual(["2025-11-25"]);
  });
});

describe("results", () => {
  it("[SC-073] say what kind they are in the modern era", () => {
    expect(accepting(resultOf({ content: [text] }), "tools/call")).toEqual(legacy);
    expect(accepting(resultOf({ ...complete, content: [text] }), "tools/call")).toEqual(revisionNames);
    expect(places(check("2026-07-28", resultOf({ content: [text] }), "tools/call"))).toEqual([
      "schema.required /result/resultType",
    ]);
    expect(places(check("2026-07-28", resultOf({ resultType: "other" }), "tools/call"))).toEqual([
      "schema.enum /result/resultType",
    ]);
  });

  const cacheable = methodNames.filter((name) => methodFacts(name)?.cacheable === true);
  it.each(cacheable)("[SC-073] of %s carry cache hints in the modern era", (method) => {
    const found = places(check("2026-07-28", resultOf(complete), method));
    expect(found).toContain("schema.required /result/ttlMs");
    expect(found).toContain("schema.required /result/cacheScope");
    const wrong = places(check("2026-07-28", resultOf({ ...complete, ttlMs: -1, cacheScope: "all" }), method));
    expect(wrong).toContain("schema.minimum /result/ttlMs");
    expect(wrong).toContain("schema.enum /result/cacheScope");
  });

  it("[SC-073] without cache hints are right for the other methods", () => {
    expect(check("2026-07-28", resultOf({ ...complete, completion: { values: [] } }), "completion/complete")).toEqual(
      [],
    );
  });

  it("[SC-073] hold structured content that is an object, until any value may be", () => {
    const structured = (structuredContent: unknown) => resultOf({ ...complete, content: [text], structuredContent });
    expect(accepting(structured({ kg: 412 }), "tools/call")).toEqual(revisionNames);
    // Before 2025-06-18 the member was unknown, and so is not judged.
    expect(accepting(structured(412), "tools/call")).toEqual([...upTo("2025-03-26"), "2026-07-28"]);
    expect(accepting(structured(null), "tools/call")).toEqual([...upTo("2025-03-26"), "2026-07-28"]);
  });

  it.each([
    ["text", text, "2024-11-05"],
    ["image", { type: "image", data: "AAAA", mimeType: "image/png" }, "2024-11-05"],
    ["resource", { type: "resource", resource: { uri: "a:b", blob: "AAAA" } }, "2024-11-05"],
    ["audio", { type: "audio", data: "AAAA", mimeType: "audio/wav" }, "2025-03-26"],
    ["resource_link", { type: "resource_link", uri: "a:b", name: "n" }, "2025-06-18"],
  ] as const)("[SC-073] may hold %s blocks since the revision that brought them", (_kind, block, since) => {
    const inCall = resultOf({ ...complete, content: [block] });
    const inPrompt = resultOf({ ...complete, messages: [{ role: "user", content: block }] });
    expect(accepting(inCall, "tools/call")).toEqual(from(since));
    expect(accepting(inPrompt, "prompts/get")).toEqual(from(since));
  });

  it("[SC-073] say which kinds a revision has when one is unknown", () => {
    const audio = resultOf({ content: [{ type: "audio", data: "AAAA", mimeType: "audio/wav" }] });
    expect(check("2024-11-05", audio, "tools/call")).toMatchObject([
      { path: "/result/content/0/type", data: { rule: "enum", expected: '"text" or "image" or "resource"' } },
    ]);
  });

  it("[SC-073] list tools whose output schema is an object, until any schema may be", () => {
    const tool = (outputSchema: unknown) =>
      resultOf({ ...fresh, tools: [{ name: "n", inputSchema: { type: "object" }, outputSchema }] });
    expect(accepting(tool({ type: "object" }), "tools/list")).toEqual(revisionNames);
    expect(accepting(tool({ type: "array" }), "tools/list")).toEqual([...upTo("2025-03-26"), "2026-07-28"]);
    expect(
      accepting(resultOf({ ...fresh, tools: [{ name: "n", inputSchema: { type: "array" } }] }), "tools/list"),
    ).toEqual([]);
  });

  it("[SC-073] may be a task instead where the revision has tasks", () => {
    const task = { taskId: "tk-5", status: "working", createdAt: "t", lastUpdatedAt: "t", ttl: 9 };
    expect(check("2025-11-25", resultOf({ task }), "tools/call")).toEqual([]);
    expect(check("2025-06-18", resultOf({ task }), "tools/call")).not.toEqual([]);
    const { ttl: ttlMs, ...flat } = task;
    expect(check("2026-07-28", resultOf({ resultType: "task", ...flat, ttlMs }), "tools/call")).toEqual([]);
    expect(places(check("2026-07-28", resultOf({ resultType: "task", ...flat }), "tools/call"))).toEqual([
      "schema.required /result/ttlMs",
    ]);
    expect(check("2026-07-28", resultOf({ resultType: "task", ...flat, ttlMs }), "tools/list")).not.toEqual([]);
  });

  it("[SC-073] may ask for input where the method allows it", () => {
    const ask = { resultType: "input_required", inputRequests: { dirs: { method: "roots/list" } } };
    expect(check("2026-07-28", resultOf(ask), "tools/call")).toEqual([]);
    expect(places(check("2026-07-28", resultOf(ask), "tools/list"))).toEqual(["schema.enum /result/resultType"]);
    expect(places(check("2026-07-28", resultOf({ resultType: "input_required" }), "prompts/get"))).toEqual([
      "schema.anyOf /result",
    ]);
    const wrong = { ...ask, inputRequests: { a: { method: "tools/call" } } };
    expect(places(check("2026-07-28", resultOf(wrong), "tools/call"))).toEqual([
      "schema.enum /result/inputRequests/a/method",
    ]);
  });

  it("[SC-073] of a poll have the members of the task's state", () => {
    const task = { ...complete, taskId: "t", createdAt: "t", lastUpdatedAt: "t", ttlMs: null };
    expect(check("2026-07-28", resultOf({ ...task, status: "completed", result: {} }), "tasks/get")).toEqual([]);
    expect(places(check("2026-07-28", resultOf({ ...task, status: "completed" }), "tasks/get"))).toEqual([
      "schema.required /result/result",
    ]);
    expect(
      places(check("2026-07-28", resultOf({ ...task, status: "failed", error: { code: 1 } }), "tasks/get")),
    ).toEqual(["schema.required /result/error/message"]);
  });

  it("[SC-073] that end a subscription name it", () => {
    expect(places(check("2026-07-28", resultOf(complete), "subscriptions/listen"))).toEqual([
      "schema.required /result/_meta",
    ]);
  });
});

describe("notifications", () => {
  it("[SC-073] of cancellation name their request, except in 2025-11-25", () => {
    expect(accepting(notificationOf("notifications/cancelled", { requestId: 5 }))).toEqual(revisionNames);
    expect(accepting(notificationOf("notifications/cancelled", {}))).toEqual(["2025-11-25"]);
  });

  it("[SC-073] of progress have a token and a number", () => {
    const progress = (params: unknown) => notificationOf("notifications/progress", params);
    expect(accepting(progress({ progressToken: "p", progress: 3.5, total: 8 }))).toEqual(revisionNames);
    expect(accepting(progress({ progressToken: "p", progress: "3" }))).toEqual([]);
    expect(accepting(progress({ progressToken: "p", progress: 3, message: 5 }))).toEqual(["2024-11-05"]);
  });

  it("[SC-073] of logs have a level and data", () => {
    const log = (params: unknown) => accepting(notificationOf("notifications/message", params));
    expect(log({ level: "error", data: null })).toEqual(revisionNames);
    expect(log({ level: "error" })).toEqual([]);
    expect(log({ level: "loud", data: 1 })).toEqual([]);
  });

  it("[SC-073] need no parameters where they only say that something changed", () => {
    expect(accepting(notificationOf("notifications/tools/list_changed"))).toEqual(revisionNames);
  });
});

describe("errors", () => {
  const error = (code: number, data: unknown) =>
    messageOf({ jsonrpc: "2.0", id: 1, error: { code, message: "m", data } });

  it("[SC-073] with a meaning of their own carry the data for it", () => {
    const url = { mode: "url", message: "m", elicitationId: "e", url: "https://x" };
    expect(check("2025-11-25", error(-32042, { elicitations: [url] }))).toEqual([]);
    expect(places(check("2025-11-25", error(-32042, {})))).toEqual(["schema.required /error/data/elicitations"]);
    expect(check("2025-06-18", error(-32042, {}))).toEqual([]);
    expect(places(check("2026-07-28", error(-32021, { requiredCapabilities: [] })))).toEqual([
      "schema.type /error/data/requiredCapabilities",
    ]);
    expect(check("2026-07-28", error(-32022, { supported: ["2026-07-28"], requested: "x" }))).toEqual([]);
    expect(check("2026-07-28", error(-32603, 5))).toEqual([]);
  });
});

describe("coverage", () => {
  it.each(revisionNames)("[SC-027] every method of %s has validators", (revision) => {
    const { requests, notifications, results } = createMessageSchemas(revision);
    const known = methodNames.filter((name) =>
      ["core", "extension"].includes(methodFacts(name)?.forms[revision] ?? ""),
    );
    const asked = known.filter((name) => methodFacts(name)?.kind === "request");
    expect([...requests.keys()].toSorted()).toEqual(asked.toSorted());
    expect([...results.keys()].toSorted()).toEqual(asked.toSorted());
    expect([...notifications.keys()].toSorted()).toEqual(known.filter((name) => !asked.includes(name)).toSorted());
  });
});
