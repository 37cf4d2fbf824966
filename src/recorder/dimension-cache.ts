import type { ExchangeRecord } from "./contract.ts";

/** Members that say what was asked for and what became of it; the same for many exchanges. */
export const outcomeFields = [
  "kind",
  "direction",
  "method",
  "target",
  "state",
  "errorCode",
  "gatewayCode",
  "decision",
  "rule",
  "messages",
  "modified",
  "redacted",
  "omitted",
] as const satisfies readonly (keyof ExchangeRecord)[];

/** What an exchange has in common with others of its subject. */
export type ExchangeOutcome = Pick<ExchangeRecord, (typeof outcomeFields)[number]>;

/** Something for each subject. */
export interface OutcomeCache<T> {
  get(subject: ExchangeOutcome): T | undefined;
  set(subject: ExchangeOutcome, value: T): void;
  clear(): void;
}

const states = ["open", "ok", "tool_error", "input_required", "error", "refused", "failed", "accepted", "abandoned"];

/** Makes a book. Subjects are looked up by what they say, most of them without putting a text together. */
export function createOutcomeCache<T>(): OutcomeCache<T> {
  /** By method, target, and a number for all that most exchanges have. */
  const usual = new Map<string, Map<string, Map<number, T>>>();
  const unusual = new Map<string, T>();
  return {
    get: (subject) => {
      const key = commonKey(subject);
      if (key < 0) return unusual.get(rareKey(subject));
      return usual
        .get(subject.method)
        ?.get(subject.target ?? "")
        ?.get(key);
    },
    set: (subject, value) => {
      const key = commonKey(subject);
      if (key < 0) {
        unusual.set(rareKey(subject), value);
        return;
      }
      const { method, target = "" } = subject;
      const targets = usual.get(method) ?? new Map<string, Map<number, T>>();
      usual.set(method, targets);
      const values = targets.get(target) ?? new Map<number, T>();
      targets.set(target, values);
      values.set(key, value);
    },
    clear: () => {
      usual.clear();
      unusual.clear();
    },
  };
}

/** What is usual in a number; below zero where something is not. */
function commonKey(subject: ExchangeOutcome): number {
  if (
    subject.errorCode !== undefined ||
    subject.gatewayCode !== undefined ||
    subject.decision !== undefined ||
    subject.rule !== undefined ||
    subject.redacted !== 0 ||
    subject.omitted !== 0
  )
    return -1;
  const flags =
    (subject.kind === "request" ? 0 : 1) +
    (subject.direction === "c2s" ? 0 : 2) +
    (subject.modified ? 4 : 0) +
    (subject.target === undefined ? 8 : 0);
  return subject.messages * 256 + states.indexOf(subject.state) * 16 + flags;
}

function rareKey(subject: ExchangeOutcome): string {
  return JSON.stringify(outcomeFields.map((member) => subject[member] ?? null));
}
