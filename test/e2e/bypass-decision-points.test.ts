import { describe, expect, it } from "vitest";

import { intruders } from "../bypass/intruders.ts";
import { attemptsAt } from "../bypass/lanes.ts";
import { remoteProviders } from "../bypass/providers.ts";
import { servedBy, vaults } from "../bypass/upstreams.ts";
import { openGateway } from "../support/local-gateway.ts";

const servers = Object.entries(vaults);

/** Every decision point with every client, each time before another server. */
const pairs = Object.entries(remoteProviders).flatMap(([how, openProvider], row) =>
  Object.entries(intruders).flatMap(([client, intrude], column) => {
    const server = servers[(row * 2 + column) % servers.length];
    return server === undefined ? [] : [{ how, openProvider, client, intrude, server: server[0], build: server[1] }];
  }),
);

describe("the corpus of attempts by messages, against decision points", () => {
  it.each(pairs)(
    "reaches nothing that is not permitted ($how, $client, $server)",
    async ({ openProvider, intrude, build }) => {
      await using vault = await build();
      await using provider = await openProvider();
      await using gateway = await openGateway({ ...servedBy(vault), policy: provider.policy });
      await using intruder = await intrude(gateway);
      const successes: string[] = [];
      let before = 0;
      for (const { name, text } of attemptsAt(vault)) {
        await intruder.send(text(intruder.era));
        const reached = await vault.reached();
        if (reached.length > before) successes.push(`${name}: ${reached.slice(before).join(" ")}`);
        before = reached.length;
      }
      // On a channel an attempt may still be on its way; this call comes behind all of them.
      expect(await intruder.callOpen()).toContain("shut");
      expect(provider.asked()).toBeGreaterThan(0);
      expect(await vault.reached()).toEqual([]);
      expect(successes).toEqual([]);
    },
  );
});
