import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import type { ErrorCode } from "../../errors.ts";
import type { Logger } from "../../telemetry/log.ts";
import { createRefusalLog } from "./refusals.ts";

function openLog() {
  const time = createFakeTime();
  const lines: (readonly [repeats: unknown, message: string])[] = [];
  const write = (fields: object, message = ""): void => {
    lines.push(["repeats" in fields ? fields.repeats : 0, message]);
  };
  const log: Logger = {
    trace: write,
    debug: write,
    info: write,
    warn: write,
    error: write,
    fatal: write,
    isLevelEnabled: () => true,
    child: () => log,
  };
  const refusals = createRefusalLog({ log, setTimer: time.setTimer, newLabel: () => "label", recording: undefined });
  const refuse = (code: ErrorCode, times: number): void => {
    for (let count = 0; count < times; count++)
      refusals.note({
        route: undefined,
        code,
        status: 404,
        reason: "x",
        transport: { type: "stdio", incarnation: "s" },
      });
  };
  return { time, lines, refusals, refuse };
}

describe("the log of refused requests", () => {
  it("sums up what comes too often, at the end of each window and of the process", async () => {
    const { time, lines, refusals, refuse } = openLog();
    refuse("not_found", 60);
    refuse("parse_error", 2);
    expect(lines).toHaveLength(12);
    await time.advance(10_000);
    expect(lines.slice(12)).toEqual([[50, "more requests refused for the same reason"]]);
    refuse("not_found", 11);
    expect(lines).toHaveLength(23);
    refusals.close();
    expect(lines.slice(23)).toEqual([[1, "more requests refused for the same reason"]]);
    expect(time.pending()).toBe(0);
  });
});
