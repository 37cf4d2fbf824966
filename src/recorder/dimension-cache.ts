// Needed by bench recorder: "recording on against off".
import type { ExchangeOutcome } from "./exchange-fields.ts";

/** A value for each outcome. */
export interface OutcomeCache<T> {
  get(outcome: ExchangeOutcome): T | undefined;
  set(outcome: ExchangeOutcome, value: T): void;
  clear(): void;
}

interface Entry<T> {
  readonly outcome: ExchangeOutcome;
  readonly value: T;
}

/** Makes a cache. Outcomes of a method and target are few, so they are compared: building a string key takes longer. */
export function createOutcomeCache<T>(): OutcomeCache<T> {
  const methods = new Map<string, Map<string, Entry<T>[]>>();
  return {
    get: (outcome) => {
      const entries = methods.get(outcome.method)?.get(outcome.target ?? "");
      if (entries !== undefined) for (const one of entries) if (isSameOutcome(one.outcome, outcome)) return one.value;
      return undefined;
    },
    set: (outcome, value) => {
      const { method, target = "" } = outcome;
      const targets = methods.get(method) ?? new Map<string, Entry<T>[]>();
      methods.set(method, targets);
      const entries = targets.get(target) ?? [];
      targets.set(target, entries);
      // A copy, because the outcome of an open exchange changes.
      entries.push({ outcome: { ...outcome }, value });
    },
    clear: () => {
      methods.clear();
    },
  };
}

/** Spelled out, because looking members up by name takes longer. */
function isSameOutcome(one: ExchangeOutcome, other: ExchangeOutcome): boolean {
  return (
    one.state === other.state &&
    one.decision === other.decision &&
    one.rule === other.rule &&
    one.messages === other.messages &&
    one.modified === other.modified &&
    one.kind === other.kind &&
    one.direction === other.direction &&
    one.method === other.method &&
    one.target === other.target &&
    one.upstream === other.upstream &&
    one.errorCode === other.errorCode &&
    one.gatewayCode === other.gatewayCode &&
    one.diagnostic === other.diagnostic &&
    one.redacted === other.redacted &&
    one.omitted === other.omitted
  );
}
