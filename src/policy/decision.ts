import type { Exchange } from "../exchange.ts";
import type { MessagePhase } from "../intercept/interceptor.ts";
import type { PolicyRefusal, Explanation, ListKind } from "./provider.ts";

/** What was decided about: a message that asks, one that answers, or the entries of a list in an answer. */
export type DecisionPhase = MessagePhase | "list";

/** Whom or what a message is about, as far as it says so. */
export interface DecisionTarget {
  readonly type: string;
  readonly name: string;
}

/** One decision about one message, for the log, the audit stream and the record. */
export interface DecisionEvent {
  /** Given to the agent with a refusal, so that it leads to this event. */
  readonly id: string;
  /** In the response phase the exchange of the request that is answered. */
  readonly exchange: Exchange;
  readonly direction: Exchange["direction"];
  readonly phase: DecisionPhase;
  /** The method of the message, or of the request that it answers. */
  readonly method: string | undefined;
  readonly target: DecisionTarget | undefined;
  /** `change` lets a message go on in another form, `filter` an answer with some of its names taken out. */
  readonly effect: "allow" | "change" | "filter" | "deny";
  /** False in shadow mode: it was decided and recorded, and the message went on as it was. */
  readonly isEnforced: boolean;
  /** The no, where it was one. */
  readonly refusal: PolicyRefusal | undefined;
  /** For lists: how many names there were, and how many of them are not shown. */
  readonly list: FilteredList | undefined;
  readonly explanation: Explanation;
  /** What a provider threw, where it failed; for the log, never for the agent. */
  readonly cause: unknown;
}

/** What became of a list. */
export interface FilteredList {
  readonly kind: ListKind;
  readonly total: number;
  readonly hidden: number;
}

/** Takes decisions as they are made. It should be quick; what it throws is ignored, so that it cannot change traffic. */
export type DecisionListener = (event: DecisionEvent) => void;
