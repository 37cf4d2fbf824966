import { describe, expect, it } from "vitest";

import { alice, askedBy, calm, createFakedAuthZen } from "../../../test/support/fake-authzen.ts";
import { exchangeWith, messageFrom } from "../../../test/support/exchange.ts";
import { notificationOf } from "../../../test/support/messages.ts";
import { anonymous } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";

const server = { type: "mcp_server", id: "https://mcp.example.com" };
const listed = (type: string, id: string) => ({ type, id, properties: { server: "test" } });

async function asked(method: string, params: object, input = {}, facts = {}) {
  const faked = createFakedAuthZen({ declaredMappings: "ignore", ...input });
  const decision = await faked.provider.evaluateRequest(askedBy(method, { ...params }, facts), calm);
  return { decision, calls: faked.calls, body: faked.calls[0]?.json };
}

describe("default mappings", () => {
  it.each([
    ["initialize", { protocolVersion: "2025-11-25" }, server, { protocol_version: "2025-11-25" }],
    ["server/discover", {}, server, { protocol_version: "2025-11-25" }],
    ["tools/list", {}, server, {}],
    ["resources/list", {}, server, {}],
    ["resources/templates/list", {}, server, {}],
    ["prompts/list", {}, server, {}],
    ["tasks/list", {}, server, {}],
    ["subscriptions/listen", {}, server, {}],
    ["logging/setLevel", { level: "info" }, server, { level: "info" }],
    ["tools/call", { name: "add" }, listed("tool", "add"), {}],
    ["resources/read", { uri: "file:///a" }, listed("resource", "file:///a"), {}],
    ["resources/subscribe", { uri: "file:///a" }, listed("resource", "file:///a"), {}],
    ["resources/unsubscribe", { uri: "file:///a" }, listed("resource", "file:///a"), {}],
    ["prompts/get", { name: "hello" }, listed("prompt", "hello"), {}],
    ["completion/complete", { ref: { type: "ref/prompt", name: "p" } }, listed("prompt", "p"), {}],
    ["completion/complete", { ref: { type: "ref/resource", uri: "u:1" } }, listed("resource", "u:1"), {}],
    ["tasks/get", { taskId: "t1" }, listed("task", "t1"), {}],
    ["tasks/result", { taskId: "t1" }, listed("task", "t1"), {}],
    ["tasks/cancel", { taskId: "t1" }, listed("task", "t1"), {}],
    ["tasks/update", { taskId: "t1" }, listed("task", "t1"), {}],
    ["sampling/createMessage", {}, server, {}],
  ])("maps %s with %j", async (method, params, resource, context) => {
    const { body, decision } = await asked(method, params);
    expect(decision.effect).toBe("allow");
    expect(body).toEqual({
      subject: {
        type: "identity",
        id: "alice",
        properties: { issuer: "https://issuer.example", scopes: ["read"] },
      },
      action: { name: method },
      resource,
      context: { agent: "agent-7", ...context },
    });
  });

  it("passes pings and notifications without evaluation", async () => {
    const { decision, calls } = await asked("ping", {});
    expect([decision.effect, calls.length]).toEqual(["allow", 0]);
    const { provider, calls: more } = createFakedAuthZen();
    const message = notificationOf("notifications/progress", { progress: 1 });
    const noted = await provider.evaluateRequest(InspectedMessage.of(exchangeWith(message)), calm);
    expect([noted.effect, more.length]).toEqual(["allow", 0]);
    const vendors = notificationOf("notifications/x-acme/run", {});
    expect(await provider.evaluateRequest(InspectedMessage.of(exchangeWith(vendors)), calm)).toMatchObject({
      effect: "deny",
      refusal: { code: "method_not_mapped" },
    });
  });

  it("refuses methods without a mapping", async () => {
    const { decision, calls } = await asked("tools/destroy", {});
    expect(decision).toMatchObject({
      effect: "deny",
      refusal: { kind: "forbidden", code: "method_not_mapped" },
    });
    expect(calls).toEqual([]);
  });

  it.each([
    ["tools/call", {}],
    ["tools/call", { name: 7 }],
    ["resources/read", { uri: null }],
    ["initialize", {}],
    ["logging/setLevel", {}],
    ["completion/complete", { ref: { type: "ref/other", name: "x" } }],
    ["completion/complete", {}],
  ])("refuses %s with %j, which lacks a required field", async (method, params) => {
    const { decision, calls } = await asked(method, params);
    expect(decision).toMatchObject({ effect: "deny", refusal: { kind: "invalid", code: "mapping_error" } });
    expect(calls).toEqual([]);
  });

  it("identifies the server by configuration or audience", async () => {
    const { body } = await asked("tools/list", {}, { resourceId: "urn:mine" });
    expect(body).toMatchObject({ resource: { id: "urn:mine" } });
    const withAudience = (aud: unknown) => ({ principal: { ...alice, claims: { ...alice.claims, aud } } });
    expect((await asked("tools/list", {}, {}, withAudience(["a"]))).body).toMatchObject({
      resource: { id: "a" },
    });
    for (const aud of [["a", "b"], [], undefined, 7]) {
      const { decision, calls } = await asked("tools/list", {}, {}, withAudience(aud));
      expect(decision).toMatchObject({ effect: "deny", refusal: { kind: "invalid" } });
      expect(calls).toEqual([]);
    }
  });

  it("takes the subject from the configured claim, and refuses a token without it", async () => {
    const principal = { ...alice, claims: { ...alice.claims, act_for: "bob" } };
    const { body } = await asked("tools/list", {}, { subjectClaim: "act_for" }, { principal });
    expect(body).toMatchObject({ subject: { id: "bob" } });
    const { decision, calls } = await asked("tools/list", {}, { subjectClaim: "act_for" });
    expect([decision.effect, calls.length]).toEqual(["deny", 0]);
  });

  it("gives callers without a token their own subject type", async () => {
    const { body } = await asked("tools/list", {}, {}, { principal: anonymous });
    expect(body).toEqual({
      subject: { type: "anonymous", id: "anonymous" },
      action: { name: "tools/list" },
      resource: { type: "mcp_server", id: "test" },
    });
    const key = { ...anonymous, id: "key:ci", kind: "key" as const, claims: { sub: "alice" } };
    expect((await asked("tools/list", {}, {}, { principal: key })).body).toMatchObject({
      subject: { type: "key", id: "key:ci" },
    });
  });

  it("sends arguments only if configured, exactly, and up to a size", async () => {
    const params = { name: "pay", arguments: { amount: 5 } };
    expect((await asked("tools/call", params)).body).not.toHaveProperty("context.arguments");
    const { calls } = await asked("tools/call", params, { sendArguments: true });
    expect(calls[0]?.json).toMatchObject({ context: { arguments: { amount: 5 } } });
    const exact = createFakedAuthZen({ declaredMappings: "ignore", sendArguments: true });
    const text =
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"n":9007199254740993}}}';
    await exact.provider.evaluateRequest(InspectedMessage.of(exchangeWith(messageFrom(text))), calm);
    expect(exact.calls[0]?.body.toString()).toContain('"arguments":{"n":9007199254740993}');
    const long = await asked("tools/call", params, { sendArguments: true, maxArgumentBytes: 5 });
    expect(long.decision).toMatchObject({ effect: "deny", refusal: { kind: "invalid" } });
    expect(long.calls).toEqual([]);
  });
});
