import { randomBytes } from "node:crypto";

import { createReloadableSecrets, type Secrets } from "../../config/secrets.ts";
import type { SetTimer } from "../../core/exchange.ts";
import type { DecisionEvent, DecisionListener } from "../../policy/provider/decision-event.ts";
import { detectPersonalData } from "../../redact/detectors/personal-data.ts";
import { detectSecrets } from "../../redact/detectors/secrets.ts";
import { createRedactor } from "../../redact/redactor.ts";
import { decisionEvent } from "../../telemetry/semconv.ts";
import type { RouteTracing, Telemetry } from "../../telemetry/tracing.ts";

/** What tells a collector of the routes of a gateway. */
export interface GatewayTelemetry {
  /** Makes what follows the messages of a route; absent where nobody collects. */
  readonly route: ((name: string) => RouteTracing) | undefined;
  /** The listener with what tells of decisions besides; the listener itself where nobody collects. */
  withDecisions(listener: DecisionListener | undefined): DecisionListener | undefined;
  /** Keeps the secrets of another configuration back too. */
  follow(secrets: Secrets): void;
  /** Sends what is left, for as long as that is worth waiting for. */
  close(): Promise<void>;
}

const nobodyCollects: GatewayTelemetry = {
  route: undefined,
  withDecisions: (listener) => listener,
  follow: () => {},
  close: async () => {},
};

/** A collector that does not answer must not keep the process from ending. */
const closingMs = 3000;

/** Joins telemetry to a gateway: no secret of the configuration, and nothing that looks like one, goes out with it. */
export function createGatewayTelemetry(
  telemetry: Telemetry | undefined,
  first: Secrets,
  setTimer: SetTimer,
  key: Uint8Array,
): GatewayTelemetry {
  if (telemetry === undefined) return nobodyCollects;
  const secrets = createReloadableSecrets(first);
  const redactor = createRedactor({
    detectors: { secrets: detectSecrets, "personal data": detectPersonalData },
    key,
    known: secrets.redact,
  });
  return {
    route: (name) => telemetry.route(name, (text) => redactor.text(text).text),
    withDecisions: (listener) => (event) => {
      noteDecision(telemetry, event);
      listener?.(event);
    },
    follow: (next) => {
      secrets.replace(next);
    },
    close: async () => {
      const tooLong = Promise.withResolvers<void>();
      const stop = setTimer(closingMs, tooLong.resolve);
      await Promise.race([telemetry.close(), tooLong.promise]);
      stop();
    },
  };
}

function noteDecision(telemetry: Telemetry, { id, exchange, effect, phase, isEnforced, explanation }: DecisionEvent) {
  const { provider, rule } = explanation;
  telemetry.addEvent(exchange, decisionEvent.name, {
    [decisionEvent.id]: id,
    [decisionEvent.effect]: effect,
    [decisionEvent.phase]: phase,
    [decisionEvent.enforced]: isEnforced,
    [decisionEvent.provider]: provider,
    ...(rule === undefined ? {} : { [decisionEvent.rule]: rule }),
  });
}

/**
 * Makes what takes secrets out of log lines: those that the configuration knows, and what looks like one, as it may come
 * in with the name of a resource or from the standard error of a server. Equal secrets stay equal within a process.
 */
export function createLogRedaction(known: (text: string) => string): (line: string) => string {
  const redactor = createRedactor({
    detectors: { secrets: detectSecrets, personalData: detectPersonalData },
    key: randomBytes(32),
    known,
  });
  return (line) => {
    const isWhole = line.endsWith("\n");
    const { text } = redactor.json(isWhole ? line.slice(0, -1) : line);
    return isWhole ? `${text}\n` : text;
  };
}
