// What a worker hands to the process that writes files, while that process hangs.
import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { exchangeWith } from "../../../test/support/exchange.ts";
import { parseConfig } from "../../config/load.ts";
import { auditConfig } from "../../policy/audit/audit-stream.ts";
import { createLogger } from "../../telemetry/log.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { createGatewayAudit } from "./audit.ts";
import { openRecording } from "./recording.ts";

/** A process that carries out what it is told, unless it is stopped: then later. */
function startProcess() {
  const { clock, setTimer, advance } = createFakeTime();
  const lines: string[] = [];
  const log = createLogger({
    level: "warn",
    pretty: false,
    destination: { write: (line) => lines.push((JSON.parse(line) as { readonly msg: string }).msg) },
  });
  let waiting: (() => void)[] | undefined;
  let calls = 0;
  const answer = async (work: () => void): Promise<void> => {
    calls++;
    if (waiting !== undefined) await new Promise<void>((resolve) => void waiting?.push(resolve));
    work();
  };
  return {
    deps: { clock, setTimer, log, metrics: createMetrics(), secrets: (text: string) => text },
    advance,
    lines,
    answer,
    calls: () => calls,
    stop: () => (waiting = []),
    goOn: () => {
      const late = waiting ?? [];
      waiting = undefined;
      for (const resolve of late) resolve();
    },
  };
}

describe("decisions that another process writes", () => {
  it("are written once and in order, however late; the log says that they were not", async () => {
    const { deps, advance, lines, answer, calls, stop, goOn } = startProcess();
    const written: string[] = [];
    const audit = createGatewayAudit(auditConfig.parse({ file: "audit.ndjson" }), {
      ...deps,
      audit: (_bounds, some) =>
        answer(
          () => void written.push(...some.map((line) => String((JSON.parse(line) as { readonly turn: number }).turn))),
        ),
    });
    let turn = 0;
    const note = async (count: number): Promise<void> => {
      for (let index = 0; index < count; index++) {
        audit.note({ turn: turn++ });
        await advance(10);
      }
    };
    const all = (): readonly string[] => Array.from({ length: turn }, (_none, index) => String(index));
    await note(3);
    for (let round = 0; round < 3; round++) {
      const before = calls();
      stop();
      await note(5);
      await advance(60_000);
      expect(lines.at(-1)).toBe("audit writes failed");
      // What is sent while nothing answers would pile up.
      expect(calls() - before).toBeLessThanOrEqual(2);
      await note(2);
      goOn();
      await note(1);
      await advance(2000);
      expect(lines.at(-1)).toBe("audit writes resumed");
      expect(written).toEqual(all());
    }
    expect(await audit.close()).toBe(0);
  });
});

describe("frames that another process stores", () => {
  it.each(["refuse", "drop"] as const)("do not pile up there while it hangs (onFailure: %s)", async (onFailure) => {
    const { deps, advance, lines, answer, calls, stop, goOn } = startProcess();
    const parsed = parseConfig({ upstream: { demo: true }, record: { file: "t.sqlite", onFailure } });
    if (!parsed.ok) throw new Error("not a configuration");
    const recording = openRecording(parsed.config.record, {
      ...deps,
      hardMs: () => 60_000,
      record: () => answer(() => {}),
    });
    if (recording === undefined) throw new Error("nothing is recorded");
    const exchange = exchangeWith(requestOf("tools/call", { name: "one" }));
    const call = async () => {
      recording.observer.received("client", exchange.message, exchange);
      const refused = recording.gate.enter?.(exchange);
      await advance(500);
      return refused;
    };
    expect(await call()).toBeUndefined();
    const before = calls();
    stop();
    for (let turn = 0; turn < 40; turn++) await call();
    expect(lines).toEqual(["recording failed"]);
    expect(calls() - before).toBe(1);
    const refused = await call();
    if (onFailure === "refuse") expect(refused).toMatchObject({ code: "store_failed" });
    else expect(refused).toBeUndefined();
    goOn();
    await advance(8000);
    expect(lines).toEqual(["recording failed", "recording resumed"]);
    expect(await call()).toBeUndefined();
    expect(await recording.close()).toBe(0);
  });
});
