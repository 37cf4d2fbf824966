import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import type { Peer } from "../support/peer-client.ts";
import { connectV2 } from "../support/v2-client.ts";

// Starting processes takes its time where other tests do the same.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const members = ["web", "child", "local"] as const;
const order = (name: string): number => members.findIndex((member) => member === name);

describe.each(["legacy", "modern"] as const)("a federation of %s servers", (era) => {
  let fixture: RunningFixture;
  let gateway: LocalGateway;

  beforeAll(async () => {
    fixture = await startFixture({ era });
    const [command, ...args] = stdioFixture({ era });
    gateway = await openGateway({
      routes: {
        all: {
          upstreams: {
            web: { url: fixture.url },
            child: { command, args },
            local: { server: () => createEverythingServer() },
          },
          federation: { listing: { wait: "30s" } },
        },
      },
    });
  });

  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
    await fixture[Symbol.asyncDispose]();
  });

  describe.each([newestLegacy, newestModern])("with a client of %s", (revision) => {
    const peer = (): Peer => ({ via: "http", url: `${gateway.origin}/all/mcp` });

    it("lists the tools of all in order and calls each", async () => {
      await using client = await connectV2(peer(), revision);
      const tools = await client.listTools();
      const owners = tools.map((name) => name.split("__")[0]);
      expect([...new Set(owners)]).toEqual(members);
      expect(owners).toEqual(owners.toSorted((a = "", b = "") => order(a) - order(b)));
      expect(new Set(tools).size).toBe(tools.length);
      for (const member of members) {
        const { texts } = await client.callTool(`${member}__test_simple_text`);
        expect(texts).toEqual(["This is a simple text response for testing."]);
      }
    });
  });
});
