import { describe, expect, it, vi } from "vitest";

import { type MockAuthZenPolicy, startMockAuthZen } from "../../src/policy/testing/mock-authzen.ts";
import { intruders } from "../bypass/intruders.ts";
import { messageAttempts } from "../bypass/messages.ts";
import { vaults } from "../bypass/upstreams.ts";
import { open } from "../bypass/vault.ts";
import { openGateway } from "../support/local-gateway.ts";

vi.setConfig({ testTimeout: 60_000 });

const names: ReadonlySet<string> = new Set([open.tool, open.prompt, open.resource]);

/** What is open may be used, the server may be asked, and nothing else. */
const onlyOpen: MockAuthZenPolicy = ({ resource }) => resource.type === "mcp_server" || names.has(resource.id);

describe("the corpus of attempts by messages, against an AuthZEN decision point", () => {
  it.each(Object.entries(intruders))("reaches nothing that is not permitted: %s", async (_client, intrude) => {
    await using vault = await vaults["in process"]();
    await using mock = await startMockAuthZen({ policy: onlyOpen });
    await using gateway = await openGateway({
      upstream: vault.upstream,
      policy: { authzen: { url: mock.url, declaredMappings: "ignore" } },
    });
    await using intruder = await intrude(gateway);
    const successes: string[] = [];
    let before = 0;
    for (const { name, text } of messageAttempts) {
      await intruder.send(text(intruder.era));
      const reached = await vault.reached();
      if (reached.length > before) successes.push(`${name}: ${reached.slice(before).join(" ")}`);
      before = reached.length;
    }
    // On a channel an attempt may still be on its way; this call comes behind all of them.
    expect(await intruder.callOpen()).toContain("shut");
    expect(mock.requests.length).toBeGreaterThan(0);
    expect(await vault.reached()).toEqual([]);
    expect(successes).toEqual([]);
  });
});
