import type { Principal } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { nameMembers } from "./facts.ts";

/** What messages have in common that are planned for together: who sends them, their method, and their name. */
export class PlanKey {
  readonly #principal: Principal;
  readonly #method: string;
  /** Where the name stands in outlines; -1 for methods that are about nothing in particular. */
  readonly #slot: number;
  /** The name as it is written, quotes included: the same bytes are the same name. */
  readonly #name: Uint8Array;

  constructor(principal: Principal, method: string, slot: number, name: Uint8Array) {
    this.#principal = principal;
    this.#method = method;
    this.#slot = slot;
    this.#name = name;
  }

  /** Whether a request or notification of somebody is one of these messages. */
  matches(principal: Principal, { method, bytes, outline }: Message): boolean {
    if (principal !== this.#principal || method !== this.#method) return false;
    const slot = this.#slot;
    if (slot < 0) return true;
    const name = this.#name;
    const start = outline.spans[slot] ?? -1;
    if (start < 0 || (outline.spans[slot + 1] ?? -1) - start !== name.length) return false;
    for (let index = 0; index < name.length; index++) {
      if (bytes[start + index] !== name[index]) return false;
    }
    return true;
  }
}

/** Something that was worked out beforehand for the messages of a topic. */
export interface KeyedPlan {
  readonly key: PlanKey;
}

/** Plans for what comes again and again. */
export interface PlanCache<Plan extends KeyedPlan> {
  /** The plan for a message that asks; undefined where there is none, or not yet: whatever comes once needs none. */
  get(subject: InspectedMessage): Plan | undefined;
  /** How many topics are known, those without a plan included. */
  readonly size: number;
}

/** Plans of one caller, by method and name; a name without one has been seen once. */
type CallersPlans<Plan> = Map<string, Map<string, Plan | undefined>>;

/** Topics that are known at most; then all are forgotten, which costs no more than to plan again what still comes. */
const maxKeys = 4096;
/** Longer names are not planned for: they are not worth their room. */
const maxName = 256;
/** A power of two. */
const recentPlaces = 64;
const quote = 0x22;

/**
 * Makes an empty memory of plans, which is bounded and lives as long as the rules that they are made of. A plan is made
 * when its topic comes for the second time.
 */
export function createPlanCache<Plan extends KeyedPlan>(
  make: (subject: InspectedMessage, topic: PlanKey) => Plan,
): PlanCache<Plan> {
  // By the object: a caller who shows other credentials is another one, with claims and scopes of its own.
  let callers = new WeakMap<Principal, CallersPlans<Plan>>();
  let size = 0;
  /** The last plan at each place that a name leads to, found without reading the name. */
  const recent: (Plan | undefined)[] = Array.from({ length: recentPlaces }, () => undefined);

  function forget(): void {
    callers = new WeakMap();
    recent.fill(undefined);
    size = 0;
  }

  function known(subject: InspectedMessage, method: string, slot: number, start: number, end: number) {
    const { message, exchange } = subject;
    const { principal } = exchange;
    const name = message.bytes.toString("latin1", start, end);
    let methods = callers.get(principal);
    if (methods === undefined) callers.set(principal, (methods = new Map()));
    let plans = methods.get(method);
    if (plans === undefined) methods.set(method, (plans = new Map()));
    const plan = plans.get(name);
    if (plan !== undefined) return plan;
    if (!plans.has(name)) {
      if (size >= maxKeys) forget();
      else {
        plans.set(name, undefined);
        size++;
      }
      return undefined;
    }
    // Bytes of its own: those that it came in may hold much more.
    const written = Uint8Array.from(message.bytes.subarray(start, end));
    const made = make(subject, new PlanKey(principal, method, slot, written));
    plans.set(name, made);
    return made;
  }

  return {
    get: (subject) => {
      const { message, exchange } = subject;
      const { method, bytes, outline } = message;
      const facts = method === undefined ? undefined : methodFacts(method);
      // Names that clients make up are no reason to remember anything, and a completion says elsewhere what it is about.
      if (method === undefined || facts === undefined || method === "completion/complete") return undefined;
      const slot = facts.target === undefined ? -1 : nameSlots[facts.target];
      const start = slot < 0 ? 0 : (outline.spans[slot] ?? -1);
      const end = slot < 0 ? 0 : (outline.spans[slot + 1] ?? -1);
      if (slot >= 0 && (start < 0 || bytes[start] !== quote || end - start > maxName)) return undefined;
      const place = placeOf(method, bytes, start, end);
      const last = recent[place];
      if (last?.key.matches(exchange.principal, message) === true) return last;
      const plan = known(subject, method, slot, start, end);
      if (plan !== undefined) recent[place] = plan;
      return plan;
    },
    get size() {
      return size;
    },
  };
}

/** Spreads names; which place one gets does not matter. */
function placeOf(method: string, bytes: Uint8Array, start: number, end: number): number {
  const letters = end - start < 2 ? 0 : (bytes[start + 1] ?? 0) * 7 + (bytes[end - 2] ?? 0);
  return (method.length + (end - start) * 3 + letters) & (recentPlaces - 1);
}

const nameSlots = {
  tool: slotOf(nameMembers.tool),
  prompt: slotOf(nameMembers.prompt),
  resource: slotOf(nameMembers.resource),
  task: slotOf(nameMembers.task),
} as const;
