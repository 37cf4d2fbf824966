import type { Exchange } from "../../exchange.ts";
import type { InspectedMessage } from "../../intercept/subject.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import type { FilteredList, DecisionEvent, DecisionPhase, DecisionTarget } from "../decision.ts";
import type { PolicyRefusal, Explanation } from "../provider.ts";

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
