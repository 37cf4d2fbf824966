import { describe, expect, it } from "vitest";

import type { DecisionEvent } from "../../src/policy/provider/decision-event.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { intruders } from "../bypass/intruders.ts";
import { plainAttempt } from "../bypass/messages.ts";
import { allowing } from "../bypass/policies.ts";
import { vaults } from "../bypass/upstreams.ts";
import { closed, open } from "../bypass/vault.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import type { PeerClient } from "../support/peer-client.ts";
import { allow, deny, fakeProvider } from "../support/policy.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

const reason = "the vault opens on Mondays only";
const onMondays = {
  rules: [
    { id: "mondays", deny: `mcp.tool == "${closed.tool}"`, reason, code: "not_today" },
    { id: "rest", allow: "true" },
  ],
};

/** What an agent gets to see of a call that was refused. */
async function seenBy(client: PeerClient): Promise<string> {
  try {
    return JSON.stringify(await client.callTool(closed.tool));
  } catch (error) {
    return error instanceof Error ? `${error.name} ${error.message}` : String(error);
  }
}

const clients = [
  { client: "SDK v1", connect: (url: string) => connectV1({ via: "http", url }) },
  { client: "SDK v2, legacy", connect: (url: string) => connectV2({ via: "http", url }, "2025-11-25") },
  { client: "SDK v2, modern", connect: (url: string) => connectV2({ via: "http", url }, "2026-07-28") },
];

describe("a refusal", () => {
  it.each(clients)(
    "is shown to agents with its reason when it is in band, which is the default ($client)",
    async ({ connect }) => {
      await using vault = await vaults["in process"]();
      await using gateway = await openGateway({ upstream: vault.upstream, policy: onMondays });
      await using client = await connect(gateway.url);
      const seen = await seenBy(client);
      expect(seen).toContain(reason);
      // The words alone: no status line, no JSON to pick them out of.
      expect(seen).not.toMatch(/jsonrpc|HTTP|\b403\b/u);
      expect((await client.callTool(open.tool)).texts).toEqual(["shut"]);
    },
  );

  it.each(clients)("is told worse by status 403: no agent gets the reason by itself ($client)", async ({ connect }) => {
    await using vault = await vaults["in process"]();
    const policy = { ...onMondays, refusalStatus: "forbidden" as const };
    await using gateway = await openGateway({ upstream: vault.upstream, policy });
    await using client = await connect(gateway.url);
    const seen = await seenBy(client);
    expect(seen === reason || seen === `McpError ${reason}`).toBe(false);
    expect(seen).toMatch(/jsonrpc|HTTP|403|Forbidden|POST/u);
    expect(await vault.reached()).toEqual([]);
  });

  it.each(Object.entries(intruders))("reaches clients on every transport: %s", async (_, intrude) => {
    await using vault = await vaults["in process"]();
    const events: DecisionEvent[] = [];
    await using gateway = await openGateway(
      { upstream: vault.upstream, policy: onMondays },
      { onDecision: (event) => void events.push(event) },
    );
    await using intruder = await intrude(gateway);
    await intruder.send(plainAttempt.text(intruder.era));
    expect(await intruder.callOpen()).toContain("shut");
    const denied = events.filter(({ effect }) => effect === "deny");
    expect(denied.map(({ refusal: denial }) => denial?.code)).toEqual(["not_today"]);
    expect(await vault.reached()).toEqual([]);
  });

  it("leads to a line of the log and to the figures", async () => {
    await using vault = await vaults["in process"]();
    const lines: string[] = [];
    const log = createLogger({
      level: "info",
      pretty: false,
      destination: { write: (line) => lines.push(line) },
    });
    await using gateway = await openGateway({ upstream: vault.upstream, policy: onMondays }, { log });
    const session = await openSession(gateway.url);
    const { json } = await session.post(toolCall(1, closed.tool));
    const { error } = json as { readonly error: { readonly data: { readonly decision: string } } };
    log.flush();
    const line = lines
      .map((text): unknown => JSON.parse(text))
      .find((one) => Reflect.get(Object(one), "decision") === error.data.decision);
    expect(line).toMatchObject({
      rule: "mondays",
      code: "not_today",
      method: "tools/call",
      target: closed.tool,
      principal: "anonymous",
      effect: "deny",
      provider: "rules",
    });
    expect(gateway.gateway.metrics()).toContain(
      'headgate_policy_decisions_total{route="default",phase="request",effect="deny",mode="enforce"} 1',
    );
    // What the log says of the rule is for operators.
    expect(JSON.stringify(json)).not.toContain("mondays");
  });

  it("for lack of a scope is a challenge, and an answer where there is no status to carry one", async () => {
    await using vault = await vaults["in process"]();
    const provider = fakeProvider({
      request: ({ metadata }) =>
        metadata.target?.name === closed.tool
          ? deny({ kind: "scope", code: "needs_scope", scopes: ["vault:open"] })
          : allow(),
    });
    await using gateway = await openGateway({ upstream: vault.upstream }, { policies: { default: provider } });
    const modern = await postModern(gateway.url, modernRequest(1, "tools/call", { name: closed.tool }));
    expect(modern.status).toBe(403);
    expect(modern.headers["www-authenticate"]).toMatch(
      /error="insufficient_scope".*scope="vault:open"|scope="vault:open".*error="insufficient_scope"/u,
    );
    const session = await openSession(gateway.url);
    expect((await session.post(toolCall(1, closed.tool))).status).toBe(403);
    const batch = await openSession(gateway.url, "2025-03-26");
    expect((await batch.post([toolCall(1, closed.tool)])).json).toMatchObject([
      { id: 1, error: { data: { code: "insufficient_scope" } } },
    ]);
    expect(await vault.reached()).toEqual([]);
  });

  // It was the server's own answer once, learnt from what the caller had met; a tool's error could be taken for one.
  it("of a name that is hidden is the answer to a name that the server does not have, in either order", async () => {
    const servers = ["legacy over HTTP", "modern over HTTP", "in process"] as const;
    const orders = [
      [closed.tool, "no_vault__"],
      ["no_vault__", closed.tool],
    ] as const;
    for (const [server, names] of servers.flatMap((one) => orders.map((order) => [one, order] as const))) {
      await using vault = await vaults[server]();
      await using gateway = await openGateway({
        upstream: vault.upstream,
        policy: { tools: { deny: [closed.tool] }, prompts: { deny: [closed.prompt] } },
      });
      const session = await openSession(gateway.url);
      const request = { jsonrpc: "2.0", id: 1, method: "prompts/get" };
      for (const ask of [
        (name: string) => session.post(toolCall(1, name)),
        (name: string) => session.post({ ...request, params: { name: name === closed.tool ? closed.prompt : name } }),
      ]) {
        const seen: unknown[] = [];
        for (const name of names) {
          const { status, text, headers } = await ask(name);
          // Ids of events count on.
          const said = text.replaceAll(/^id: .*$/gmu, "id:").replaceAll(/open_vault|vault_code|no_vault__/gu, "NAME");
          seen.push({ status, said, type: headers["content-type"] });
        }
        expect(seen[0]).toEqual(seen[1]);
      }
    }
  });

  it("leaves the rest of a batch alone", async () => {
    await using vault = await vaults["in process"]();
    await using gateway = await openGateway({
      upstream: vault.upstream,
      policy: allowing["rules that allow"],
    });
    const session = await openSession(gateway.url, "2025-03-26");
    const { json } = await session.post([toolCall(1, open.tool), toolCall(2, closed.tool)]);
    expect(json).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id: 1, result: expect.anything() }),
        expect.objectContaining({ id: 2, error: expect.objectContaining({ code: 4030 }) }),
      ]),
    );
  });
});
