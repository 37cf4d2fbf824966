// Needed by bench recorder: "recording on against off".
import { exchangeStatuses } from "./contract.ts";
import { fieldsIn, type ExchangeOutcome } from "./exchange-fields.ts";

/** A value for each outcome. */
export interface OutcomeCache<T> {
  get(outcome: ExchangeOutcome): T | undefined;
  set(outcome: ExchangeOutcome, value: T): void;
  clear(): void;
}

/** Makes a cache. Common outcomes are looked up by method, target and a number: building a string key takes longer. */
export function createOutcomeCache<T>(): OutcomeCache<T> {
  const common = new Map<string, Map<string, Map<number, T>>>();
  const rare = new Map<string, T>();
  return {
    get: (outcome) => {
      const key = commonKey(outcome);
      if (key < 0) return rare.get(rareKey(outcome));
      return common
        .get(outcome.method)
        ?.get(outcome.target ?? "")
        ?.get(key);
    },
    set: (outcome, value) => {
      const key = commonKey(outcome);
      if (key < 0) {
        rare.set(rareKey(outcome), value);
        return;
      }
      const { method, target = "" } = outcome;
      const targets = common.get(method) ?? new Map<string, Map<number, T>>();
      common.set(method, targets);
      const values = targets.get(target) ?? new Map<number, T>();
      targets.set(target, values);
      values.set(key, value);
    },
    clear: () => {
      common.clear();
      rare.clear();
    },
  };
}

const outcomeFields = fieldsIn("outcome");

/** Everything but method and target as a number; -1 if the outcome has a field that few have. */
function commonKey(outcome: ExchangeOutcome): number {
  if (
    outcome.errorCode !== undefined ||
    outcome.gatewayCode !== undefined ||
    outcome.upstream !== undefined ||
    outcome.decision !== undefined ||
    outcome.rule !== undefined ||
    outcome.diagnostic !== undefined ||
    (outcome.kind !== "request" && outcome.kind !== "notification") ||
    outcome.redacted !== 0 ||
    outcome.omitted !== 0
  )
    return -1;
  const flags =
    (outcome.kind === "request" ? 0 : 1) +
    (outcome.direction === "c2s" ? 0 : 2) +
    (outcome.modified ? 4 : 0) +
    (outcome.target === undefined ? 8 : 0);
  return outcome.messages * 256 + exchangeStatuses.indexOf(outcome.state) * 16 + flags;
}

function rareKey(outcome: ExchangeOutcome): string {
  return JSON.stringify(outcomeFields.map((field) => outcome[field] ?? null));
}
