import { describe, expect, it } from "vitest";

import { openSqliteReader } from "../../src/recorder/store/sqlite.ts";
import { createMock } from "../../src/recorder/replay/mock.ts";
import { serveMockHttp } from "../../src/recorder/replay/mock-server.ts";
import { readRecordedTraffic } from "../../src/recorder/replay/recorded-call.ts";
import { lanes } from "../conformance/lanes.ts";
import { runSuite } from "../conformance/suite.ts";
import { failuresIn } from "../conformance/verdict.ts";
import { temporaryFolder } from "../support/capture-file.ts";
import { startFixture } from "../support/fixture.ts";
import { openGateway } from "../support/local-gateway.ts";

/** What a recording of messages cannot show again: sessions and events by their ids belong to connections. */
const beyondMessages: ReadonlySet<string> = new Set(["server-sse-multiple-streams", "server-sse-polling"]);

const replayable = lanes.filter(({ name }) => name === "2025-11-25" || name === "2026-07-28");

describe("a capture of the conformance run", () => {
  it.each(replayable)(
    "[SC-070] passes as a mock what the server has passed ($name)",
    async ({ fixture, selection }) => {
      using folder = temporaryFolder();
      const file = folder.at("store.sqlite");
      let recorded: Awaited<ReturnType<typeof runSuite>>;
      {
        await using server = await startFixture(fixture);
        await using gateway = await openGateway({
          upstream: { url: server.url },
          record: { file, redact: { personalData: false } },
        });
        recorded = await runSuite(gateway.url, selection);
      }
      await using reader = await openSqliteReader(file, { wait: async () => {} });
      const mock = createMock(await readRecordedTraffic(reader.export()));
      await using served = await serveMockHttp(mock);
      const { outcome } = await runSuite(served.url, selection);
      expect([...outcome.keys()].toSorted()).toEqual([...recorded.outcome.keys()].toSorted());
      expect(outcome.size).toBeGreaterThan(30);
      const failedBefore = new Set(failuresIn(recorded.outcome).map(({ scenario }) => scenario));
      const failed = failuresIn(outcome).filter(
        ({ scenario }) => !failedBefore.has(scenario) && !beyondMessages.has(scenario),
      );
      expect(failed).toEqual([]);
      expect(mock.misses).toEqual([]);
    },
    180_000,
  );
});
