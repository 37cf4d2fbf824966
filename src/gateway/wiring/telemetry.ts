import { randomBytes } from "node:crypto";

import { createReloadableSecrets, type Secrets } from "../../config/secrets.ts";
import type { SetTimer } from "../../core/exchange.ts";
import type { DecisionEvent, DecisionListener } from "../../policy/provider/decision-event.ts";
import { detectPersonalData } from "../../redact/detectors/personal-data.ts";
import { detectSecrets } from "../../redact/detectors/secrets.ts";
import { createRedactor, type Redactor } from "../../redact/redactor.ts";
import { decisionEvent } from "../../telemetry/semconv.ts";
import type { RouteTracing, Telemetry } from "../../telemetry/trace-context.ts";

/** Telemetry of a gateway's routes. */
export interface GatewayTelemetry {
  /** Creates the tracing of a route; undefined without a collector. */
  readonly route: ((name: string) => RouteTracing) | undefined;
  /** A listener that also adds decisions to spans; the given one without a collector. */
  withDecisions(listener: DecisionListener | undefined): DecisionListener | undefined;
  /** Also redacts the secrets of another configuration. */
  follow(secrets: Secrets): void;
  /** Flushes within a few seconds. */
  close(): Promise<void>;
}

const withoutCollector: GatewayTelemetry = {
  route: undefined,
  withDecisions: (listener) => listener,
  follow: () => {},
  close: async () => {},
};

/** How long to wait for the collector when the process ends. */
const closingMs = 3000;

/** Connects telemetry to a gateway. Secrets, and what looks like one, are redacted first. */
export function createGatewayTelemetry(
  telemetry: Telemetry | undefined,
  first: Secrets,
  setTimer: SetTimer,
): GatewayTelemetry {
  if (telemetry === undefined) return withoutCollector;
  const secrets = createReloadableSecrets(first);
  const redact = createTextRedaction(secrets.redact);
  return {
    route: (name) => telemetry.route(name, redact),
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
 * Creates the redaction of log lines: configured secrets, and what looks like one, which may come in with a resource name
 * or from a server's standard error. Equal secrets get equal replacements within a process.
 */
export function createLogRedaction(known: (text: string) => string): (line: string) => string {
  const redactor = createProcessRedactor(known);
  return (line) => {
    const isWhole = line.endsWith("\n");
    const whole = isWhole ? line.slice(0, -1) : line;
    const [labelled, start = "", label] = labelledLine.exec(whole) ?? [];
    const { text } = redactor.json(labelled === undefined ? whole : start + whole.slice(labelled.length));
    const clean = label === undefined ? text : text.slice(0, start.length) + label + text.slice(start.length);
    return isWhole ? `${clean}\n` : clean;
  };
}

/**
 * The beginning of a line about an exchange, and its label. The id in a label was redacted when the label was made; with
 * the counter behind it, a harmless one may look like a card number.
 */
const labelledLine = /^(\{"level":"[a-z]+","time":"[\w:.-]+"(?:,"worker":\d+)?)(,"exchange":"[\w.~%-]+")/u;

/** Creates the redaction of short texts that are not JSON, such as the ids of messages. */
export function createTextRedaction(known: (text: string) => string): (text: string) => string {
  const redactor = createProcessRedactor(known);
  return (text) => redactor.text(text).text;
}

function createProcessRedactor(known: (text: string) => string): Redactor {
  return createRedactor({
    detectors: { secrets: detectSecrets, personalData: detectPersonalData },
    key: randomBytes(32),
    known,
  });
}
