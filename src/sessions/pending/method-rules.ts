import { memberString } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import {
  methodFacts,
  type MethodFacts,
  methodNames,
  type NameSource,
  type TimeoutClass,
} from "../../protocol/methods.ts";

/** How long exchanges may stay open (SC-050). All in milliseconds; `Infinity` means for ever. */
export interface TtlOptions {
  /** Without activity: lists, handshake and other lookups. */
  readonly quickMs: number;
  /** Without activity: tools and whatever else does work, unknown methods included. */
  readonly toolMs: number;
  /** Without activity: what a person answers. */
  readonly humanMs: number;
  /** In all, however much activity there is. */
  readonly hardMs: number;
  /** Exceptions by method, `*` standing for any text; the first that fits counts. Streams have no TTL in any case. */
  readonly methods: readonly TtlException[];
  /** Without activity: single tools by name, before what is said of `tools/call`. */
  readonly tools: Readonly<Record<string, number>>;
}

export interface TtlException {
  readonly method: string;
  readonly inactivityMs?: number;
  readonly hardMs?: number;
}

export const defaultTtl: TtlOptions = {
  quickMs: 30_000,
  toolMs: 5 * 60_000,
  humanMs: 30 * 60_000,
  hardMs: 60 * 60_000,
  methods: [],
  tools: {},
};

/** All that correlation needs to know of a method, looked up once per request. */
export interface MethodRules {
  /** The name to count it under: its own if some revision knows it, else `other`. */
  readonly label: string;
  /** The place of that label in {@link methodLabels}. */
  readonly row: number;
  readonly inactivityMs: number;
  readonly hardMs: number;
  /** Stays open as long as its stream: no TTL at all (SC-057). */
  readonly isStream: boolean;
  /** May take one of the reserved slots (SC-051). */
  readonly isReserved: boolean;
  /** Its result may ask for input. */
  readonly mayAskInput: boolean;
  readonly nameSource: NameSource | undefined;
  /** It is about a task that an earlier request created. */
  readonly isAboutTask: boolean;
}

/** Labels for counting: every request method that some revision knows, and `other` for all the rest. */
export const methodLabels: readonly string[] = [
  ...methodNames.filter((name) => methodFacts(name)?.kind === "request"),
  "other",
];

/** The plan of a stream that no request opened, such as one that a GET asked for. */
export const streamRules: MethodRules = {
  label: "other",
  row: methodLabels.length - 1,
  inactivityMs: Infinity,
  hardMs: Infinity,
  isStream: true,
  isReserved: false,
  mayAskInput: false,
  nameSource: undefined,
  isAboutTask: false,
};

/** What must get through when all ordinary slots are taken. A cancel is a notification and needs no slot. */
const reserved: ReadonlySet<string> = new Set(["initialize", "server/discover", "ping", "tasks/cancel"]);

/** Finds the plan of a method; the request is looked into where single tools have their own. */
export type RulesFor = (method: string, request?: Message) => MethodRules;

/** Makes the lookup. Plans of known methods are made once; others only differ where an exception names them. */
export function createMethodRules(ttl: TtlOptions): RulesFor {
  const exceptions = ttl.methods.map((exception) => ({ ...exception, pieces: exception.method.split("*") }));

  function planOf(method: string): MethodRules {
    const facts = methodFacts(method);
    const exception = exceptions.find(({ pieces }) => fits(method, pieces));
    return toMethodRules(method, facts, paceMs(facts?.timeoutClass ?? "tool", ttl), ttl.hardMs, exception);
  }

  const known = new Map(methodLabels.map((name) => [name, planOf(name)]));
  const other = planOf("");
  const find: RulesFor = (method) => known.get(method) ?? (exceptions.length === 0 ? other : planOf(method));
  const call = planOf("tools/call");
  const tools = new Map(Object.entries(ttl.tools).map(([name, inactivityMs]) => [name, { ...call, inactivityMs }]));
  if (tools.size === 0) return find;
  return (method, request) => {
    if (method !== "tools/call" || request === undefined) return find(method);
    return tools.get(memberString(request, "params.name") ?? "") ?? call;
  };
}

function toMethodRules(
  method: string,
  facts: MethodFacts | undefined,
  pace: number,
  hardMs: number,
  exception: TtlException | undefined,
): MethodRules {
  const isStream = facts?.timeoutClass === "stream";
  const row = methodLabels.indexOf(method);
  const label = facts === undefined || row < 0 ? "other" : method;
  return {
    label,
    row: label === "other" ? methodLabels.length - 1 : row,
    inactivityMs: isStream ? Infinity : (exception?.inactivityMs ?? pace),
    hardMs: isStream ? Infinity : (exception?.hardMs ?? hardMs),
    isStream,
    isReserved: reserved.has(method),
    mayAskInput: facts?.inputRequired ?? false,
    nameSource: facts?.nameSource,
    isAboutTask: facts?.target === "task",
  };
}

function paceMs(pace: TimeoutClass, ttl: TtlOptions): number {
  switch (pace) {
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

/** Whether a text is these pieces with anything between them; linear, because clients choose the text. */
function fits(text: string, pieces: readonly string[]): boolean {
  const [first = "", ...rest] = pieces;
  const last = rest.pop();
  if (last === undefined) return text === first;
  const end = text.length - last.length;
  if (end < first.length || !text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const piece of rest) {
    const found = text.indexOf(piece, at);
    if (found < 0 || found + piece.length > end) return false;
    at = found + piece.length;
  }
  return true;
}
