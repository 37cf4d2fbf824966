import type { Exchange } from "../../exchange.ts";
import type { Subject } from "../../intercept/subject.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import type { DecidedList, DecisionEvent, DecisionPhase, DecisionTarget } from "../decision.ts";
import type { Denial, Explanation } from "../provider.ts";

/** What is known of a decision when it is made. */
export interface DecisionFacts {
  readonly subject: Subject;
  readonly phase: DecisionPhase;
  readonly effect: DecisionEvent["effect"];
  readonly explanation: Explanation;
  readonly denial?: Denial | undefined;
  readonly list?: DecidedList | undefined;
  readonly cause?: unknown;
}

/** A decision as listeners see it. A class: what is read from the message, and the id, are made when asked for. */
export class Decision implements DecisionEvent {
  readonly phase: DecisionPhase;
  readonly effect: DecisionEvent["effect"];
  readonly isEnforced: boolean;
  readonly denial: Denial | undefined;
  readonly list: DecidedList | undefined;
  readonly explanation: Explanation;
  readonly cause: unknown;
  readonly #subject: Subject;
  readonly #newId: () => string;
  #id: string | undefined;

  constructor(facts: DecisionFacts, isEnforced: boolean, newId: () => string) {
    this.#subject = facts.subject;
    this.#newId = newId;
    this.phase = facts.phase;
    this.effect = facts.effect;
    this.isEnforced = isEnforced;
    this.denial = facts.denial;
    this.list = facts.list;
    this.explanation = facts.explanation;
    this.cause = facts.cause;
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
