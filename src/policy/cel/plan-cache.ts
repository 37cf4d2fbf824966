// Needed by bench policy: "ten rules on both phases".
import type { Principal } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { targetMembers } from "../provider/request-target.ts";

/** Caches plans by caller, method and target name. A plan is created when its key comes for the second time. */
export interface PlanCache<Plan> {
  get(subject: InspectedMessage): Plan | undefined;
  /** Known keys, including those without a plan yet. */
  readonly size: number;
}

/** At this number everything is forgotten: what is still in use is planned again. */
const maxKeys = 4096;
const maxNameBytes = 256;
const quote = 0x22;

export function createPlanCache<Plan extends object>(create: (subject: InspectedMessage) => Plan): PlanCache<Plan> {
  // By the principal object: new credentials are a new object, with claims and scopes of their own.
  let callers = new WeakMap<Principal, Map<string, Map<string, Plan | undefined>>>();
  let size = 0;

  return {
    get: (subject) => {
      const { method } = subject.message;
      const name = nameOf(subject.message);
      if (method === undefined || name === undefined) return undefined;
      const { principal } = subject.exchange;
      let methods = callers.get(principal);
      if (methods === undefined) callers.set(principal, (methods = new Map()));
      let plans = methods.get(method);
      if (plans === undefined) methods.set(method, (plans = new Map()));
      let plan = plans.get(name);
      if (plan !== undefined) return plan;
      if (plans.has(name)) plans.set(name, (plan = create(subject)));
      else if (size < maxKeys) {
        plans.set(name, undefined);
        size++;
      } else {
        callers = new WeakMap();
        size = 0;
      }
      return plan;
    },
    get size() {
      return size;
    },
  };
}

/** The name as written, empty without a target; undefined for messages that are not planned. */
function nameOf({ method, bytes, outline }: Message): string | undefined {
  const facts = method === undefined ? undefined : methodFacts(method);
  // Clients can make up methods, and the target of a completion is elsewhere.
  if (facts === undefined || method === "completion/complete") return undefined;
  if (facts.target === undefined) return "";
  const slot = targetSlots[facts.target];
  const start = outline.spans[slot] ?? -1;
  const end = outline.spans[slot + 1] ?? -1;
  if (start < 0 || bytes[start] !== quote || end - start > maxNameBytes) return undefined;
  return bytes.toString("latin1", start, end);
}

const targetSlots = {
  tool: slotOf(targetMembers.tool),
  prompt: slotOf(targetMembers.prompt),
  resource: slotOf(targetMembers.resource),
  task: slotOf(targetMembers.task),
} as const;
