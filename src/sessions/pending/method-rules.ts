import { memberString } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts, methodNames, type NameSource, type TimeoutClass } from "../../protocol/methods.ts";

/** How long requests may stay open (SC-050), in milliseconds; `Infinity` means forever. Streams have no timeout. */
export interface TtlOptions {
  /** Inactivity timeout of lists, handshake and other lookups. */
  readonly quickMs: number;
  /** Inactivity timeout of tools and of unknown methods. */
  readonly toolMs: number;
  /** Inactivity timeout of requests that a person answers. */
  readonly humanMs: number;
  /** Hard limit, regardless of activity. */
  readonly hardMs: number;
  /** Inactivity timeouts of single tools by name; they override `toolMs`. */
  readonly tools: Readonly<Record<string, number>>;
}

/** What correlation needs to know about a method, looked up once per request. */
export interface MethodRules {
  /** The method if some revision defines it, else `other`: a metric label. */
  readonly label: string;
  /** The index of that label in {@link methodLabels}. */
  readonly row: number;
  readonly inactivityMs: number;
  readonly hardMs: number;
  /** Stays open as long as its stream: no timeout (SC-057). */
  readonly isStream: boolean;
  /** May use one of the reserved slots (SC-051). */
  readonly isReserved: boolean;
  /** Its result may ask for input. */
  readonly mayAskInput: boolean;
  readonly nameSource: NameSource | undefined;
  /** It refers to a task that an earlier request created. */
  readonly isAboutTask: boolean;
}

/** Metric labels: every request method that some revision defines, and `other` for the rest. */
export const methodLabels: readonly string[] = [
  ...methodNames.filter((name) => methodFacts(name)?.kind === "request"),
  "other",
];

/** Methods that must get through when all ordinary slots are taken. A cancel is a notification and needs no slot. */
const reserved: ReadonlySet<string> = new Set(["initialize", "server/discover", "ping", "tasks/cancel"]);

/** Finds the rules of a method; reads the tool name from the request if single tools have their own timeout. */
export type RulesFor = (method: string, request?: Message) => MethodRules;

/** Creates the lookup. The rules of all known methods are made once. */
export function createMethodRules(ttl: TtlOptions): RulesFor {
  const known = new Map(methodLabels.map((name) => [name, rulesOf(name, ttl)]));
  const other = rulesOf("other", ttl);
  const call = rulesOf("tools/call", ttl);
  const tools = new Map(Object.entries(ttl.tools).map(([name, inactivityMs]) => [name, { ...call, inactivityMs }]));
  return (method, request) => {
    if (tools.size === 0 || method !== "tools/call" || request === undefined) return known.get(method) ?? other;
    return tools.get(memberString(request, "params.name") ?? "") ?? call;
  };
}

function rulesOf(method: string, ttl: TtlOptions): MethodRules {
  const facts = methodFacts(method);
  const isStream = facts?.timeoutClass === "stream";
  const label = facts !== undefined && methodLabels.includes(method) ? method : "other";
  return {
    label,
    row: methodLabels.indexOf(label),
    inactivityMs: timeoutMs(facts?.timeoutClass ?? "tool", ttl),
    hardMs: isStream ? Infinity : ttl.hardMs,
    isStream,
    isReserved: reserved.has(method),
    mayAskInput: facts?.inputRequired ?? false,
    nameSource: facts?.nameSource,
    isAboutTask: facts?.target === "task",
  };
}

function timeoutMs(timeoutClass: TimeoutClass, ttl: TtlOptions): number {
  switch (timeoutClass) {
    case "quick":
      return ttl.quickMs;
    case "tool":
      return ttl.toolMs;
    case "human":
      return ttl.humanMs;
    case "stream":
      return Infinity;
  }
}
