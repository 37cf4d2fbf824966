import { describe, expect, it } from "vitest";

import { intruders } from "../bypass/intruders.ts";
import { attemptAll } from "../bypass/lanes.ts";
import { plainAttempt, searchAttempts } from "../bypass/messages.ts";
import { allowing, denying } from "../bypass/policies.ts";
import { servedBy, vaults } from "../bypass/upstreams.ts";
import { closed } from "../bypass/vault.ts";
import { openGateway } from "../support/local-gateway.ts";

const pairs = Object.entries(intruders).flatMap(([client, intrude], row) =>
  Object.entries(vaults).map(([server, build], column) => ({
    client,
    server,
    intrude,
    build,
    turn: row + column,
  })),
);

/** Every pair with one of the ways to say a policy, in turn. */
function inTurn<Policy>(policies: Readonly<Record<string, Policy>>) {
  const ways = Object.entries(policies);
  return pairs.flatMap((pair) => {
    const way = ways[pair.turn % ways.length];
    return way === undefined ? [] : [{ ...pair, how: way[0], policy: way[1] }];
  });
}

describe("the corpus of attempts by messages", () => {
  it.each(pairs)("is real: without a policy the plain call arrives ($client, $server)", async ({ intrude, build }) => {
    await using vault = await build();
    await using gateway = await openGateway({ upstream: vault.upstream });
    await using intruder = await intrude(gateway);
    await intruder.send(plainAttempt.text(intruder.era));
    // A server that is a process takes its time to start.
    await expect.poll(vault.reached).not.toEqual([]);
  });

  it.each(Object.entries(intruders))(
    "is real: without a policy call_tool opens the vault (%s)",
    async (_client, intrude) => {
      await using vault = await vaults["modern, searched"]();
      await using gateway = await openGateway(servedBy(vault));
      await using intruder = await intrude(gateway);
      const [plain] = searchAttempts;
      await intruder.send(plain?.text(intruder.era) ?? "");
      await expect.poll(vault.reached).toContain(`used: ${closed.tool}`);
    },
  );

  it.each(inTurn(allowing))(
    "reaches nothing that is not allowed ($client, $server, $how)",
    async ({ intrude, build, policy }) => {
      await using vault = await build();
      await using gateway = await openGateway({ ...servedBy(vault), policy });
      await using intruder = await intrude(gateway);
      expect(await attemptAll(intruder, vault)).toEqual([]);
      expect(await intruder.callOpen()).toContain("shut");
      expect(await vault.reached()).toEqual([]);
    },
  );

  it.each(inTurn(denying))(
    "uses nothing that is denied ($client, $server, $how)",
    async ({ intrude, build, policy }) => {
      await using vault = await build();
      await using gateway = await openGateway({ ...servedBy(vault), policy });
      await using intruder = await intrude(gateway);
      await attemptAll(intruder, vault);
      expect(await intruder.callOpen()).toContain("shut");
      const reached = await vault.reached();
      expect(reached.filter((what) => what.includes("used: "))).toEqual([]);
    },
  );
});
