import { systemClock } from "../../src/lib/clock.ts";
import { defaultLimits } from "../../src/protocol/message.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createContext, type GatewayContext } from "../../src/gateway/context.ts";
import { openState } from "../../src/gateway/wiring/state.ts";

/** What all rooms of a gateway share, with a silent log and small limits. */
export function createTestContext(): GatewayContext {
  const log = createLogger({ level: "silent", pretty: false });
  return createContext({
    redact: String,
    onRefused: () => {},
    parse: defaultLimits,
    queueBytes: 1000,
    bytes: { total: 1e9, perPrincipal: 1e9 },
    sessions: { sessions: 10, sessionsPerPrincipal: 10, idleMs: 1e6, ageMs: 1e6 },
    eventStore: { streamBytes: 1000, principalBytes: 1000, totalBytes: 1000 },
    suspension: { suspended: 1, suspendedPerPrincipal: 1 },
    state: openState({ required: true, timeout: 250 }, { log, clock: systemClock }),
    log,
  });
}
