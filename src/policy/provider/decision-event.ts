import type { Exchange } from "../../core/exchange.ts";
import type { MessagePhase } from "../../core/interceptors/interceptor.ts";
import type { Explanation, ListKind, PolicyRefusal } from "./provider.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { metadataOf } from "../../protocol/metadata.ts";

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

/** What only some decisions have. */
export interface DecisionRecordOptions {
  readonly refusal?: PolicyRefusal | undefined;
  readonly list?: FilteredList | undefined;
  readonly cause?: unknown;
}

/** A decision as listeners see it. A class: what is read from the message, and the id, are made when asked for. */
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
    { refusal: denial, list, cause }: DecisionRecordOptions,
  ) {
    this.#subject = subject;
    this.#newId = newId;
    this.phase = phase;
    this.effect = effect;
    this.isEnforced = isEnforced;
    this.refusal = denial;
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
    // An answer is about what its request was about.
    return request === undefined ? metadata.target : metadataOf(request).target;
  }
}
