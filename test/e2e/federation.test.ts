import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { newestLegacy, newestModern, revisions } from "../../src/protocol/revisions.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { features } from "../matrix/features.ts";
import type { Meeting } from "../matrix/places.ts";
import { probes } from "../matrix/probes.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import type { Peer } from "../support/peer-client.ts";
import { connectV2 } from "../support/v2-client.ts";

const members = ["web", "child", "local"] as const;
const order = (name: string): number => members.findIndex((member) => member === name);

describe.each(["legacy", "modern"] as const)("a federation of %s servers", (era) => {
  let fixture: RunningFixture;
  let gateway: LocalGateway;

  beforeAll(async () => {
    fixture = await startFixture({ era });
    const federation = { listing: { wait: "30s" } };
    const other = { server: () => createEverythingServer() };
    const [command, ...args] = stdioFixture({ era });
    gateway = await openGateway({
      routes: {
        all: {
          upstreams: {
            web: { url: fixture.url },
            child: { command, args },
            local: other,
          },
          federation,
        },
        // Every feature of the matrix is tried at a server among others, with its own names and with URIs of two.
        "tried-web": { upstreams: { tried: { url: fixture.url, prefix: "" }, other }, federation },
        "tried-child": { upstreams: { tried: { command, args, prefix: "" }, other }, federation },
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

    it.each(["web", "child"] as const)("has every feature of a server alone, over %s", async (where) => {
      const client = { era: revisions[revision].era, transport: "Streamable HTTP" } as const;
      const meeting: Meeting = {
        client,
        server: { era, transport: where === "web" ? "Streamable HTTP" : "stdio" },
      };
      await using connected = await connectV2({ via: "http", url: `${gateway.origin}/tried-${where}/mcp` }, revision);
      const wrong: string[] = [];
      for (const { name, obstacle } of features) {
        // The fixture only says that its tools have changed; a federation tells when they really have.
        if (obstacle(meeting) !== undefined || name === "list changes") continue;
        await probes[name](connected, meeting).catch((error: unknown) => {
          wrong.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
        });
      }
      expect(wrong).toEqual([]);
    });
  });
});
