import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith, valueOf } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { allow, createPolicyBench, deny } from "../../../test/support/policy.ts";
import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import type { Message, RequestId } from "../../protocol/message.ts";
import type { PolicyRefusal, RefusalKind } from "../provider/provider.ts";
import type { RefusalOptions } from "./refusals.ts";

const modern = { revision: "2026-07-28", era: "modern" } as const;
const call = requestOf("tools/call", { name: "weigh" });

async function refused(denial: Partial<PolicyRefusal>, settings: Partial<RefusalOptions> = {}) {
  const refusals = { profile: "default", refusalStatus: "in-band", ...settings } as const;
  const bench = createPolicyBench({ request: () => deny(denial) }, undefined, { refusals });
  const { message, ...rest } = await bench.handle(exchangeWith(call));
  return { ...rest, error: Reflect.get(Object(valueOf(message)), "error") as unknown };
}

describe("refusals", () => {
  it.each<[RefusalKind, number, number]>([
    ["forbidden", 4030, 200],
    ["rate", 4290, 429],
    ["unavailable", 5030, 503],
    ["invalid", -32602, 200],
  ])("have the codes of the table by default: %s", async (kind, code, status) => {
    expect(await refused({ kind, retryAfter: 3 })).toMatchObject({
      status,
      retryAfter: 3,
      error: { code, data: { origin: "gateway", reason: "not_yours", decision: "decision-1" } },
    });
  });

  it("can be told by status", async () => {
    expect(await refused({}, { refusalStatus: "forbidden" })).toMatchObject({
      status: 403,
      error: { code: 4030 },
    });
  });

  it.each<[RefusalKind, number]>([
    ["forbidden", -32001],
    ["rate", -32001],
    ["unavailable", -32603],
    ["invalid", -32602],
  ])("have the codes of the AuthZEN binding in the profile coaz: %s", async (kind, code) => {
    expect(await refused({ kind }, { profile: "coaz" })).toMatchObject({ status: 200, error: { code } });
  });

  it.each([
    [400, -32600],
    [401, -32600],
    [403, -32600],
    [404, -32601],
    [409, -32600],
    [429, -32000],
    [500, -32603],
    [502, -32000],
    [503, -32000],
    [504, -32000],
    [507, -32603],
  ])("[PA-171, PA-172, PA-173] have code and status of the decision in the profile ping: %i", async (status, code) => {
    const http = { status, headers: {}, body: '{"errorMessage":"Access Denied"}' };
    expect(await refused({ http }, { profile: "ping" })).toMatchObject({
      status,
      error: { code, message: "Access Denied" },
    });
  });

  it.each([
    ['{"message":"a"}', "a"],
    ['{"error_description":"b"}', "b"],
    ['{"error":{"message":"c"}}', "c"],
    ["<html>", "this is not for you"],
    ["5", "this is not for you"],
  ])("say in the profile ping what the decision point said: %s", async (body, message) => {
    const http = { status: 403, headers: {}, body };
    expect(await refused({ http }, { profile: "ping" })).toMatchObject({ error: { message } });
  });

  it("ask for the scopes that are missing by a challenge", async () => {
    const bench = createPolicyBench({ request: () => deny({ kind: "scope", scopes: ["ships:write"] }) });
    const error: unknown = await bench.handle(exchangeWith(call)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(GatewayError);
    expect(error).toMatchObject({
      code: "insufficient_scope",
      details: { scopes: ["ships:write"], reason: "not_yours", decision: "decision-1" },
    });
  });
});

describe("what is hidden", () => {
  const hide = (facts: Partial<Exchange> = {}) => {
    const bench = createPolicyBench({
      request: ({ message }) =>
        JSON.stringify(valueOf(message)).includes("hidden") ? deny({ kind: "hidden" }) : deny(),
    });
    return async (method: string, params: unknown) =>
      valueOf((await bench.handle(exchangeWith(requestOf(method, params, 3), facts))).message);
  };

  it("is answered in the words of the specification, without a mark of ours", async () => {
    const ask = hide();
    expect(await ask("tools/call", { name: "hidden" })).toEqual({
      jsonrpc: "2.0",
      id: 3,
      error: { code: -32602, message: "Unknown tool: hidden" },
    });
    expect(await ask("prompts/get", { name: "hidden" })).toMatchObject({ error: { code: -32602 } });
    const notFound = { message: "Resource not found", data: { uri: "a:hidden" } };
    expect(await ask("resources/read", { uri: "a:hidden" })).toMatchObject({
      error: { code: -32002, ...notFound },
    });
    expect(await hide(modern)("resources/read", { uri: "a:hidden" })).toMatchObject({
      error: { code: -32602, ...notFound },
    });
    expect(await ask("x/hidden", {})).toMatchObject({ error: { code: -32601 } });
  });

  // Servers' words were learnt once; a tool's own error could then speak through them, past the rules for results.
  it("is answered like a name that the server does not know, in whichever order and words", async () => {
    const texts = [
      (name: string) => `Tool ${name} not found`,
      (name: string) => `MCP error -32602: Tool ${name} not found`,
      (name: string) => `Unknown tool: '${name}'`,
      (name: string) => `No such tool: ${name}.`,
      (name: string) => `tool "${name}" doesn't exist`,
    ];
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...texts),
        fc.boolean(),
        fc.array(fc.tuple(fc.boolean(), fc.stringMatching(/^[a-z_]{1,12}$/u)), { minLength: 2, maxLength: 8 }),
        async (say, isResult, calls) => {
          const bench = unknownTo((name, id) =>
            isResult
              ? resultMessage(id, JSON.stringify({ content: [{ type: "text", text: say(name) }], isError: true }))
              : errorMessage(id, { code: -32602, message: say(name), data: { name } }),
          );
          for (const [isHidden, word] of calls) {
            const name = isHidden ? `hidden_${word}` : word;
            const reply = await bench.handle(exchangeWith(requestOf("tools/call", { name }, 3)));
            expect(reply.status).toBeUndefined();
            expect(valueOf(reply.message)).toEqual({
              jsonrpc: "2.0",
              id: 3,
              error: { code: -32602, message: `Unknown tool: ${name}` },
            });
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  it.each([
    "lookup: entry not found. Last record: ghp_secret",
    "ENOENT: no such file or directory, open 'lookup'",
    "lookup: not found",
    "Unknown tool: lookup. Did you mean vault?",
    "Invalid params",
  ])("is not answered with what a tool says of its own: %s", async (text) => {
    const result = { content: [{ type: "text", text }], isError: true };
    const bench = unknownTo((_, id) => resultMessage(id, JSON.stringify(result)));
    const ask = async (name: string) =>
      valueOf((await bench.handle(exchangeWith(requestOf("tools/call", { name }, 3)))).message);
    // The tool's error is its caller's to read.
    expect(await ask("lookup")).toEqual({ jsonrpc: "2.0", id: 3, result });
    expect(await ask("hidden")).toEqual({
      jsonrpc: "2.0",
      id: 3,
      error: { code: -32602, message: "Unknown tool: hidden" },
    });
  });
});

/** A route that hides what is named so, before a server that gives one answer to every call. */
function unknownTo(answer: (name: string, id: RequestId) => Message) {
  return createPolicyBench(
    {
      sees: (name) => !name.includes("hidden"),
      request: ({ message }) =>
        JSON.stringify(valueOf(message)).includes("hidden") ? deny({ kind: "hidden" }) : allow(),
    },
    async ({ message }) => {
      const { params } = Object(valueOf(message)) as { readonly params: { readonly name: string } };
      return { message: answer(params.name, message.id ?? { key: "3", json: "3" }), status: 200 };
    },
  );
}
