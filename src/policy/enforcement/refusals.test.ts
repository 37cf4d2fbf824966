import { describe, expect, it } from "vitest";

import { exchangeWith, textOf, valueOf } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { createPolicyBench, deny } from "../../../test/support/policy.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
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
  ])("have the gateway's codes by default: %s", async (kind, code, status) => {
    expect(await refused({ kind, retryAfter: 3 })).toMatchObject({
      status,
      retryAfter: 3,
      error: { code, data: { origin: "gateway", reason: "not_yours", decision: "decision-1" } },
    });
  });

  it("can use status 403", async () => {
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
  ])("have the decision point's message in the profile ping: %s", async (body, message) => {
    const http = { status: 403, headers: {}, body };
    expect(await refused({ http }, { profile: "ping" })).toMatchObject({ error: { message } });
  });

  it("challenge for missing scopes", async () => {
    const bench = createPolicyBench({ request: () => deny({ kind: "scope", scopes: ["ships:write"] }) });
    const error: unknown = await bench.handle(exchangeWith(call)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(GatewayError);
    expect(error).toMatchObject({
      code: "insufficient_scope",
      details: { scopes: ["ships:write"], reason: "not_yours", decision: "decision-1" },
    });
  });
});

describe("a hidden name", () => {
  const hide = (facts: Partial<Exchange> = {}) => {
    const bench = createPolicyBench({
      request: ({ message }) =>
        JSON.stringify(valueOf(message)).includes("hidden") ? deny({ kind: "hidden" }) : deny(),
    });
    return async (method: string, params: unknown) =>
      valueOf((await bench.handle(exchangeWith(requestOf(method, params, 3), facts))).message);
  };

  it("is answered as the specification says, without a trace of the gateway", async () => {
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

  it.each([
    [
      "an error",
      (name: string, id: string) =>
        errorMessage({ key: id, json: id }, { code: -32602, message: `Tool ${name} not found`, data: { name } }),
    ],
    [
      "a result",
      (name: string, id: string) =>
        resultMessage(
          { key: id, json: id },
          JSON.stringify({ content: [{ type: "text", text: `Unknown tool: ${name}` }], isError: true }),
        ),
    ],
  ])("is answered in the server's own words once the caller knows them: %s", async (_, unknown) => {
    const bench = createPolicyBench(
      {
        request: ({ message }) =>
          JSON.stringify(valueOf(message)).includes("hidden")
            ? deny({ kind: "hidden" })
            : { effect: "allow", explanation: { provider: "x", rule: undefined, read: [], durationMs: 0 } },
      },
      async ({ message }) => {
        const { params } = Object(valueOf(message)) as { readonly params: { readonly name: string } };
        return { message: unknown(params.name, message.id?.json ?? ""), status: 200 };
      },
    );
    const ask = (name: string, id: number, principal = principalNamed("a")) =>
      bench.handle(exchangeWith(requestOf("tools/call", { name }, id), { principal }));
    const met = await ask('no "such" tool', 1);
    const hidden = await ask("hidden", 2);
    expect(textOf(hidden.message)).toBe(
      textOf(met.message)
        ?.replaceAll(JSON.stringify('no "such" tool').slice(1, -1), "hidden")
        .replace('"id":1', '"id":2'),
    );
    expect(hidden.status).toBe(met.status);
    // What one caller has met may repeat what it sent, so nobody else is shown it.
    expect(valueOf((await ask("hidden", 3, principalNamed("b"))).message)).toMatchObject({
      error: { message: "Unknown tool: hidden" },
    });
  });
});
