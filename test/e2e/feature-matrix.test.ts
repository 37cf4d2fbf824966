import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { features } from "../matrix/features.ts";
import { meetings, nameOf, type Meeting } from "../matrix/places.ts";
import { probes } from "../matrix/probes.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import type { Peer } from "../support/peer-client.ts";
import { connectV2 } from "../support/v2-client.ts";

const bin = resolve(import.meta.dirname, "../../bin/headgate.mjs");
let fixtures: readonly RunningFixture[];
let gateway: LocalGateway;
let folder: string;

beforeAll(async () => {
  const [legacy, modern] = await Promise.all([startFixture({ era: "legacy" }), startFixture({ era: "modern" })]);
  fixtures = [legacy, modern];
  const childOf = (era: "legacy" | "modern") => {
    const [command, ...args] = stdioFixture({ era });
    return { upstream: { command, args } };
  };
  const routes = {
    "legacy-streamable-http": { upstream: { url: legacy.url, transport: "streamable-http" as const } },
    "legacy-http-sse": { upstream: { url: legacy.sseUrl ?? "", transport: "sse" as const } },
    "legacy-stdio": childOf("legacy"),
    "modern-streamable-http": { upstream: { url: modern.url, transport: "streamable-http" as const } },
    "modern-stdio": childOf("modern"),
  };
  folder = mkdtempSync(join(tmpdir(), "headgate-features-"));
  writeFileSync(join(folder, "headgate.json"), JSON.stringify({ routes, log: { level: "error" } }));
  gateway = await openGateway({
    routes: {
      ...routes,
      "legacy-in-process": { upstream: { server: () => createEverythingServer() } },
      "modern-in-process": {
        upstream: { server: () => createEverythingServer({ isModernOnly: true }) },
      },
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await Promise.all(fixtures.map(async (fixture) => fixture[Symbol.asyncDispose]()));
  rmSync(folder, { recursive: true });
});

function peerOf({ client, server }: Meeting): Peer {
  const route = `${server.era}-${server.transport.toLowerCase().replaceAll(/[ +]/gu, "-")}`;
  switch (client.transport) {
    case "Streamable HTTP":
      return { via: "http", url: `${gateway.origin}/${route}/mcp` };
    case "HTTP+SSE":
      return { via: "sse", url: `${gateway.origin}/${route}/sse` };
    case "stdio":
      return {
        via: "stdio",
        command: [process.execPath, bin, "stdio", "--config", join(folder, "headgate.json"), "--route", route],
      };
  }
}

describe.each(meetings.map((meeting) => ({ meeting, who: nameOf(meeting) })))("$who", ({ meeting }) => {
  it("have every feature that the table promises, and no other", async () => {
    await using client = await connectV2(
      peerOf(meeting),
      meeting.client.era === "legacy" ? newestLegacy : newestModern,
    );
    const wrong: string[] = [];
    for (const { name, obstacle } of features) {
      const promised = obstacle(meeting) === undefined;
      const failure = await probes[name](client, meeting).then(
        () => undefined,
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      );
      if (promised && failure !== undefined) wrong.push(`${name} does not work: ${failure}`);
      if (!promised && failure === undefined) wrong.push(`${name} works, although the table says why it cannot`);
    }
    expect(wrong).toEqual([]);
  });
});
