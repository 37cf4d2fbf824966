import { describe, expect, it } from "vitest";

import { factsOf, sendRaw } from "../bypass/http-client.ts";
import { httpAttempts } from "../bypass/http.ts";
import { openCall, plainAttempt } from "../bypass/messages.ts";
import { allowing } from "../bypass/policies.ts";
import { servedBy, vaults } from "../bypass/upstreams.ts";
import { closed, open } from "../bypass/vault.ts";
import { openSession } from "../support/legacy-session.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import { post } from "../support/raw-http.ts";

const places = (["legacy", "modern"] as const).flatMap((era) =>
  (["legacy over HTTP", "modern over HTTP", "in process", "legacy among others", "modern, searched"] as const).map(
    (server) => ({ era, server }),
  ),
);

describe("the corpus of attempts by HTTP itself", () => {
  it.each(places)("reaches nothing ($era client, $server)", async ({ era, server }) => {
    await using vault = await vaults[server]();
    await using gateway = await openGateway({ ...servedBy(vault), policy: allowing["rules that allow"] });
    const facts = await factsOf(gateway, era);
    const successes: string[] = [];
    for (const { name, bytes } of httpAttempts) {
      const before = (await vault.reached()).length;
      const said = await sendRaw(gateway, bytes(facts));
      if ((await vault.reached()).length > before || said.includes("gold")) successes.push(name);
    }
    expect(successes).toEqual([]);
    const still = era === "modern" ? facts : await factsOf(gateway, era);
    const answer = await post(gateway.url, openCall(era), { ...still.headers, "mcp-name": open.tool });
    expect(answer.text).toContain("shut");
    expect(await vault.reached()).toEqual([]);
  });

  it.each(places)(
    "is real: without a policy the plain call arrives ($era client, $server)",
    async ({ era, server }) => {
      await using vault = await vaults[server]();
      await using gateway = await openGateway(servedBy(vault));
      const [plain] = httpAttempts;
      // The first call of a session waits until the server has opened its stream.
      const said = await sendRaw(gateway, plain?.bytes(await factsOf(gateway, era)) ?? Buffer.alloc(0), 10_000);
      expect(said).toContain("gold");
      expect(await vault.reached()).not.toEqual([]);
    },
  );
});

describe("sessions and eras", () => {
  it("are no way around: another route's session, another era in a session, sessions that are none", async () => {
    await using vault = await vaults["legacy over HTTP"]();
    await using other = await vaults["legacy over HTTP"]();
    await using gateway = await openGateway({
      routes: {
        guarded: { upstream: vault.upstream, policy: allowing["rules that allow"] },
        open: { upstream: other.upstream },
      },
    });
    const guarded = `${gateway.origin}/guarded/mcp`;
    const free = `${gateway.origin}/open/mcp`;
    const own = await openSession(guarded);
    const foreign = await openSession(free);
    const legacy = plainAttempt.text("legacy");
    const modern = plainAttempt.text("modern");
    const mirrored = {
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": closed.tool,
    };
    const tries: readonly (readonly [body: unknown, headers: Record<string, string>])[] = [
      [legacy, foreign.headers],
      [legacy, { ...foreign.headers, "mcp-session-id": own.id.toUpperCase() }],
      [legacy, { ...own.headers, "mcp-session-id": `${own.id}, ${foreign.id}` }],
      [legacy, {}],
      [legacy, { "mcp-session-id": "made-up" }],
      [modern, own.headers],
      [modern, { ...own.headers, ...mirrored }],
      [modern, { ...mirrored, "mcp-session-id": foreign.id }],
      [legacy, { ...own.headers, "mcp-protocol-version": "2026-07-28" }],
      [legacy, mirrored],
      [legacy, { ...own.headers, ...mirrored }],
      [legacy, { ...own.headers, "mcp-protocol-version": "2025-03-26" }],
      [[JSON.parse(String(legacy))], { ...own.headers, "mcp-protocol-version": "2025-03-26" }],
    ];
    for (const [body, headers] of tries) expect((await post(guarded, body, headers)).text).not.toContain("gold");
    expect(await vault.reached()).toEqual([]);
    // The other route is open, and its own sessions are served there.
    expect((await post(free, legacy, foreign.headers)).text).toContain("gold");
    expect(await vault.reached()).toEqual([]);
  });

  it("are no way around: a stream that is taken up again has nothing that was refused", async () => {
    await using vault = await vaults["legacy over HTTP"]();
    await using gateway = await openGateway({
      upstream: vault.upstream,
      policy: allowing["rules that allow"],
    });
    const session = await openSession(gateway.url);
    await session.post(plainAttempt.text("legacy"));
    await using stream = await session.listen();
    await using again = await session.listen("0.0");
    expect([stream.status, again.status]).toContain(200);
    expect(await vault.reached()).toEqual([]);
  });

  it("are no way around: what a list showed before cannot be called once the policy has changed", async () => {
    await using vault = await vaults["legacy over HTTP"]();
    await using gateway = await openGateway({ upstream: vault.upstream });
    const session = await openSession(gateway.url);
    const listed = await session.post({ jsonrpc: "2.0", id: 1, method: "tools/list" });
    expect(listed.text).toContain(closed.tool);
    const next = localConfig({ upstream: vault.upstream, policy: allowing["rules that allow"] });
    expect(await gateway.gateway.reload(next)).toMatchObject({
      ok: true,
      changed: expect.arrayContaining(["routes.default.policy"]) as unknown,
    });
    expect((await session.post(plainAttempt.text("legacy"))).json).toMatchObject({ error: { code: 4030 } });
    expect(await vault.reached()).toEqual([]);
  });
});
