import type { Exchange } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { MessagePhase } from "../../core/interceptors/interceptor.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import type { Explanation, ListKind, PolicyRefusal } from "./provider.ts";

/** The decided message: a request or notification, a response, or the entries of a list in a response. */
export type DecisionPhase = MessagePhase | "list";

/** What a message is about. */
export interface DecisionTarget {
  readonly type: string;
  readonly name: string;
}

/** How many entries of a list were hidden. */
export interface FilteredList {
  readonly kind: ListKind;
  readonly total: number;
  readonly hidden: number;
}

/** One decision about one message, for the log, the audit stream and the recording. */
export interface DecisionEvent {
  /** Sent to the agent with a refusal, to find this event. */
  readonly id: string;
  /** In the response phase, the exchange of the request. */
  readonly exchange: Exchange;
  readonly direction: Exchange["direction"];
  readonly phase: DecisionPhase;
  /** The method of the message, or of the request it answers. */
  readonly method: string | undefined;
  readonly target: DecisionTarget | undefined;
  /** `change`: the message was changed; `filter`: names were removed from a result. */
  readonly effect: "allow" | "change" | "filter" | "deny";
  /** False in shadow mode: the message went on unchanged. */
  readonly isEnforced: boolean;
  readonly refusal: PolicyRefusal | undefined;
  /** For lists. */
  readonly list: FilteredList | undefined;
  readonly explanation: Explanation;
  /** What a failing provider threw; for the log, never for the agent. */
  readonly cause: unknown;
}

/** Receives decisions. It should be quick; what it throws is ignored. */
export type DecisionListener = (event: DecisionEvent) => void;

/** The fields that only some decisions have. */
export interface DecisionRecordOptions {
  readonly refusal?: PolicyRefusal | undefined;
  readonly list?: FilteredList | undefined;
  readonly cause?: unknown;
}

/** A class, so that the id and what is read from the message are computed only if a listener reads them. */
export class DecisionRecord implements DecisionEvent {
  readonly phase: DecisionPhase;
  readonly effect: DecisionEvent["effect"];
  readonly isEnforced: boolean;
  readonly refusal: PolicyRefusal | undefined;
  readonly list: FilteredList | undefined;
  readonly explanation: Explanation;
  readonly cause: unknown;
  readonly #subject: InspectedMessage;
  readonly #newId: () => string;
  #id: string | undefined;

  constructor(
    subject: InspectedMessage,
    phase: DecisionPhase,
    effect: DecisionEvent["effect"],
    explanation: Explanation,
    isEnforced: boolean,
    newId: () => string,
    { refusal, list, cause }: DecisionRecordOptions,
  ) {
    this.#subject = subject;
    this.#newId = newId;
    this.phase = phase;
    this.effect = effect;
    this.isEnforced = isEnforced;
    this.refusal = refusal;
    this.list = list;
    this.explanation = explanation;
    this.cause = cause;
  }

  get id(): string {
    return (this.#id ??= this.#newId());
  }

  get exchange(): Exchange {
    return this.#subject.exchange;
  }

  get direction(): Exchange["direction"] {
    return this.#subject.direction;
  }

  get method(): string | undefined {
    return this.#subject.method;
  }

  get target(): DecisionTarget | undefined {
    const { request, metadata } = this.#subject;
    return request === undefined ? metadata.target : metadataOf(request).target;
  }
}
