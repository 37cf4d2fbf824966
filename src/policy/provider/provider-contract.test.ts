import { describe, expect, it } from "vitest";
import * as z from "zod";

import { alice, authZenConfig, calm, decided, type AuthZenCall } from "../../../test/support/fake-authzen.ts";
import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import { plainSettings } from "../../../test/support/mock-pingauthorize.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { createAuthZenProvider } from "../authzen/provider.ts";
import { createCelProvider } from "../cel/provider.ts";
import { rulesFields } from "../cel/config.ts";
import type { PolicyProvider } from "./provider.ts";
import type { PdpClient, PdpRequest } from "../pdp/client.ts";
import { sidebandConfig } from "../sideband/config.ts";
import { createSidebandProvider } from "../sideband/provider.ts";

const { clock, setTimer } = createFakeTime();
const secret = "argument-4711";

/** A decision point in memory that permits the tool `open`, or is down. */
function clientOf(answer: (request: PdpRequest) => unknown, isDown: boolean): PdpClient {
  return {
    async post(request) {
      if (isDown) throw new Error(`connect ECONNREFUSED ${secret}`);
      return Promise.resolve({
        status: 200,
        headers: {},
        body: Buffer.from(JSON.stringify(answer(request))),
      });
    },
    close: () => {},
  };
}

function authzen(isDown: boolean): PolicyProvider {
  const client = clientOf(({ body, ...request }) => {
    const json = JSON.parse(body.toString()) as AuthZenCall["json"];
    return decided({ ...request, body, json }, (id) => id === "open").json;
  }, isDown);
  const config = authZenConfig({ declaredMappings: "ignore", retries: 0 });
  return createAuthZenProvider(config, { clock, setTimer, client });
}

function sideband(isDown: boolean): PolicyProvider {
  const config = sidebandConfig.parse({
    serviceUrl: plainSettings.service_url,
    sharedSecret: plainSettings.shared_secret,
    secretHeaderName: plainSettings.secret_header_name,
  });
  const client = clientOf(({ body }) => {
    const payload = JSON.parse(body.toString()) as Readonly<Record<string, unknown>>;
    const { mcp_tool_name: tool } = Object(payload["mcp"]) as Readonly<Record<string, unknown>>;
    const { state: _state, request: _request, ...answer } = payload;
    return tool === "open" ? answer : { response: { response_code: "403", body: "{}", headers: [] } };
  }, isDown);
  return createSidebandProvider(config, { clock, setTimer, client, log: () => {} });
}

function rules(): PolicyProvider {
  const settings = z.strictObject(rulesFields).parse({ rules: [{ id: "open", allow: 'mcp.tool == "open"' }] });
  return createCelProvider(settings, { clock });
}

const call = (name: string) =>
  InspectedMessage.of(
    exchangeWith(requestOf("tools/call", { name, arguments: { text: secret } }), { principal: alice }),
  );

describe.each<readonly [string, () => PolicyProvider]>([
  ["rules", rules],
  ["pingauthorize", () => sideband(false)],
  ["authzen", () => authzen(false)],
])("the provider %s", (name, make) => {
  it("allows and denies with explanations that contain no arguments", async () => {
    const provider = make();
    expect(provider.name).toBe(name);
    for (const [tool, effect] of [
      ["open", "allow"],
      ["closed", "deny"],
    ] as const) {
      const decision = await provider.evaluateRequest(call(tool), calm);
      expect([tool, decision.effect]).toEqual([tool, effect]);
      expect(decision).not.toHaveProperty("change");
      expect(decision.explanation.provider).toBe(name);
      expect(decision.explanation.read.length).toBeGreaterThan(0);
      expect(decision.explanation.durationMs).toBeGreaterThanOrEqual(0);
      const { effect: _effect, ...said } = decision.effect === "deny" ? decision : { ...decision, memory: undefined };
      expect(JSON.stringify(said)).not.toContain(secret);
    }
  });

  it("denies with a code and a reason", async () => {
    const decision = await make().evaluateRequest(call("closed"), calm);
    expect(decision).toMatchObject({
      effect: "deny",
      refusal: { code: expect.stringMatching(/^[a-z][\d_a-z]*$/u), reason: expect.stringMatching(/.{5}/u) },
    });
  });

  it("allows the response to an allowed call", async () => {
    const provider = make();
    const asked = call("open");
    const decision = await provider.evaluateRequest(asked, calm);
    if (decision.effect !== "allow" || asked.message.kind !== "request") throw new Error("it was refused");
    const answer = InspectedMessage.answering(asked.exchange, asked.message, resultOf({ content: [] }));
    const reviewed = await provider.evaluateResponse(answer, { ...calm, memory: decision.memory });
    expect(reviewed.effect).toBe("allow");
  });

  it("can be closed twice", async () => {
    const provider = make();
    await provider.close?.();
    await provider.close?.();
    expect(provider.name).toBe(name);
  });
});

describe.each<readonly [string, () => PolicyProvider]>([
  ["pingauthorize", () => sideband(true)],
  ["authzen", () => authzen(true)],
])("the provider %s without its decision point", (_name, make) => {
  it("denies as unavailable and does not tell the agent why", async () => {
    const decision = await make().evaluateRequest(call("open"), calm);
    expect(decision).toMatchObject({ effect: "deny", refusal: { kind: "unavailable" } });
    expect(decision.effect === "deny" && decision.refusal.reason).not.toContain("ECONNREFUSED");
  });
});
