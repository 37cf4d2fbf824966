import {
  configuredRoute,
  entryTargetOf,
  type Principal,
  type Tracking,
  type UpstreamTarget,
} from "../../core/exchange.ts";
import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { createGlobTest } from "../../lib/text/glob.ts";
import { pointerTo } from "../../protocol/json/read.ts";
import { listShapeOf } from "../../protocol/lists.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { canonicalUri, isCanonicalTemplate } from "../provider/canonical-uri.ts";
import {
  completionReference,
  type ListKind,
  type ListPage,
  type ShadowDecision,
  targetMembers,
  targetName,
} from "../provider/provider.ts";
import type { RulesConfig } from "./config.ts";
import { decide } from "./decide.ts";
import { Bindings, isKnownFromCall } from "./facts.ts";
import { isStaticPath } from "./plan-cache.ts";
import { type KnownMcp, type Outcomes, PossibleCall } from "./possible-outcomes.ts";
import type { ReadPath } from "./read-paths.ts";
import type { Rule, RuleSet } from "./rules.ts";

/** Which names callers can see, in lists and when they use a name. */
export interface NameVisibility {
  /** Whether the configuration can leave any entry out of a list. */
  readonly canFilter: boolean;
  /** Whether the configuration can hide any name, as if it did not exist. */
  readonly canHide: boolean;
  /** Whether `isHidden` depends on caller, method and target name only. */
  readonly isStatic: boolean;
  /** Whether the target of a request is hidden from the caller. */
  isHidden(subject: InspectedMessage): boolean;
  filter(page: ListPage): ListFilterResult;
}

/** Which entries of a page are visible, with what is reported about it. */
export interface ListFilterResult {
  readonly visible: readonly boolean[];
  /** What rules in shadow mode would have hidden. */
  readonly shadow?: readonly ShadowDecision[] | undefined;
  /** Rules that failed. */
  readonly notes?: readonly string[] | undefined;
}

/** Most entries named in a report. */
const maxReported = 5;

/** Creates the test of names from the configured patterns, the list rules, and the rules for requests. */
export function createNameVisibility(
  config: RulesConfig,
  lists: RuleSet | undefined,
  calls: RuleSet | undefined,
): NameVisibility {
  const { tools, prompts, resources } = config;
  const matchers: Readonly<Record<ListKind, NameMatcher | undefined>> = {
    tool: createNameMatcher(tools),
    prompt: createNameMatcher(prompts),
    resource: createNameMatcher(resources),
    "resource-template": createNameMatcher(resources),
  };
  const hasNameRules = lists !== undefined || Object.values(matchers).some((matcher) => matcher !== undefined);
  const reachability = calls && createReachability(calls);
  const conditions = lists?.rules.map(({ rule }) => rule.condition) ?? [];
  return {
    canFilter: hasNameRules || calls !== undefined,
    canHide: hasNameRules || calls?.rules.some(({ rule }) => rule.refusal.kind === "hidden" && !rule.isShadow) === true,
    // A request is only tested against list rules that read nothing of an entry but its name.
    isStatic: conditions.every(({ reads }) => reads.every((path) => isOwnOfEntry(path) || isStaticPath(path))),
    isHidden: (subject) => {
      const { message } = subject;
      const kind = hasNameRules ? methodFacts(message.method ?? "")?.target : undefined;
      const name = kind === undefined ? undefined : targetName(message, kind);
      if (kind === undefined || kind === "task" || name === undefined) return false;
      if (matchers[kind]?.(name) === false) return true;
      if (lists === undefined || !isKnownFromCall(kind, lists.needs.entry)) return false;
      const value = { [kind === "resource" ? "uri" : "name"]: name };
      return filterByRules(lists, undefined, { subject, kind, entries: [{ name, value }] }).visible[0] !== true;
    },
    filter: (page) => {
      const { kind, entries, subject } = page;
      const isAllowed = matchers[kind];
      const filtered: ListFilterResult =
        lists === undefined
          ? { visible: entries.map(({ name }) => isAllowed?.(name) ?? true) }
          : filterByRules(lists, isAllowed, page);
      if (reachability === undefined) return filtered;
      // Outside lists, as in a link, a name that cannot be used is no secret unless a rule hides it.
      const isList = listShapeOf(subject.method) !== undefined;
      const reach = reachability(subject.exchange, kind);
      const visible = entries.map(({ name }, index) => {
        if (filtered.visible[index] !== true) return false;
        const reached = reach(name);
        return isList ? reached === "possible" : reached !== "hidden";
      });
      return { ...filtered, visible };
    },
  };
}

/** Which server an entry stands for is not its own: it changes with a reload, and for a URI that is tried at each server. */
function isOwnOfEntry([variable, field]: ReadPath): boolean {
  return variable === "entry" && field !== "upstream" && field !== "original";
}

type NameMatcher = (name: string) => boolean;

/** Names are compared case-sensitively; undefined if the patterns allow every name. */
function createNameMatcher(patterns: RulesConfig["tools"]): NameMatcher | undefined {
  if (patterns === undefined || (patterns.allow === undefined && patterns.deny.length === 0)) return undefined;
  const isAllowed = createGlobTest(patterns.allow);
  if (patterns.deny.length === 0) return isAllowed;
  const isDenied = createGlobTest(patterns.deny);
  return (name) => !isDenied(name) && isAllowed(name);
}

/** An entry whose rule fails is hidden. */
function filterByRules(
  { rules, needs, fallback }: RuleSet,
  isAllowed: NameMatcher | undefined,
  { subject, kind, entries }: ListPage,
): ListFilterResult {
  const bindings = new Bindings(subject, needs);
  const shadow: ShadowDecision[] = [];
  const notes: string[] = [];
  const visible = entries.map((entry) => {
    if (isAllowed?.(entry.name) === false) return false;
    bindings.setEntry(kind, entry);
    const result = decide(rules, rules.length, bindings, fallback);
    for (const decision of result.shadow ?? []) {
      if (decision.effect === "deny" && shadow.length < maxReported)
        shadow.push({ ...decision, reason: `would hide ${entry.name}` });
    }
    if (result.notes !== undefined && notes.length < maxReported)
      notes.push(`${entry.name}: ${result.rule?.id ?? ""} ${result.notes.join(", ")}`);
    return result.refusal === undefined;
  });
  return {
    visible,
    shadow: shadow.length === 0 ? undefined : shadow,
    notes: notes.length === 0 ? undefined : notes,
  };
}

/** Rules about the beginning of names apply to a longer name as well, rules about one name do not. */
const suffix = "_unlisted";

/** The same request about a name that no server has, for rules to decide about; undefined if it has no name. */
export function withUnlistedName(subject: InspectedMessage): InspectedMessage | undefined {
  const { message, exchange } = subject;
  const named = nameIn(message);
  if (named === undefined) return undefined;
  const change = { set: { [named.pointer]: named.name + suffix } };
  // Only rules read it, so what bounds messages on the wire does not bound it.
  const changed = applyChange(message, change, { revision: exchange.revision });
  if (!changed.ok) return undefined;
  const { upstream } = exchange.tracking;
  const tracking =
    upstream === undefined
      ? exchange.tracking
      : { ...exchange.tracking, upstream: { ...upstream, name: upstream.name + suffix } };
  return InspectedMessage.of({ ...exchange, message: changed.message, tracking });
}

function nameIn(message: Message): { readonly pointer: string; readonly name: string } | undefined {
  const { method = "" } = message;
  if (method === "completion/complete") {
    const reference = completionReference(message);
    const member = reference?.kind === "prompt" ? "name" : "uri";
    return reference && { pointer: pointerTo(["params", "ref", member]), name: reference.name };
  }
  const target = methodFacts(method)?.target;
  const name = target === undefined ? undefined : targetName(message, target);
  return target === undefined || name === undefined
    ? undefined
    : { pointer: pointerTo(targetMembers[target].split(".")), name };
}

/**
 * Whether some request about a name could be allowed. `hidden` means that every request is refused by a rule with `hide`,
 * as if the name did not exist.
 */
type Reachability = "possible" | "never" | "hidden";

/** Tells for a caller and a kind of list whether the rules could allow any use of a name. */
type ReachabilityTest = (caller: ListCaller, kind: ListKind) => (name: string) => Reachability;

/** Who asks, and on which route. */
interface ListCaller {
  readonly principal: Principal;
  readonly route: string;
  readonly tracking: Tracking;
}

const usingMethods: Readonly<Record<ListKind, readonly string[]>> = {
  tool: ["tools/call"],
  prompt: ["prompts/get"],
  resource: ["resources/read", "resources/subscribe"],
  "resource-template": ["resources/read", "resources/subscribe"],
};

/** The cache is cleared at this number of names per caller; names in use are computed again. */
const maxNames = 16_384;

/**
 * Creates the test from the rules for requests. It depends on caller, route, name and server only, so it is made once for
 * them. Needed by bench policy: "list of 50 tools, filtered". Needed by bench big: "a list of 10,000 tools".
 */
function createReachability({ rules, fallback }: RuleSet): ReachabilityTest {
  const enforced = rules.map(({ rule }) => rule).filter(({ isShadow }) => !isShadow);
  // By the principal object: new credentials are a new object, with claims and scopes of their own.
  const known = new WeakMap<Principal, Map<string, Map<string, Reachability>>>();

  return (caller, kind) => {
    const { principal, route, tracking } = caller;
    let lists = known.get(principal);
    if (lists === undefined) known.set(principal, (lists = new Map()));
    const list = `${kind} ${route}`;
    let names = lists.get(list);
    if (names === undefined) lists.set(list, (names = new Map<string, Reachability>()));
    const found = names;
    return (name) => {
      const upstream =
        tracking.entryTarget === undefined ? undefined : (entryTargetOf(caller, kind, name) ?? "unknown");
      const key = upstream === undefined ? name : serverKey(upstream) + name;
      let reached = found.get(key);
      if (reached !== undefined) return reached;
      reached = test(principal, configuredRoute(route), kind, name, upstream);
      if (found.size >= maxNames) found.clear();
      found.set(key, reached);
      return reached;
    };
  };

  function test(
    principal: Principal,
    server: string,
    kind: ListKind,
    name: string,
    upstream: KnownUpstream,
  ): Reachability {
    const isTemplate = kind === "resource-template" && name.includes("{");
    // What is missing here is unknown. A request has to name a resource by its canonical URI.
    const target = isTemplate ? undefined : kind === "tool" || kind === "prompt" ? name : (canonicalUri(name) ?? name);
    const mcp: KnownMcp = {
      server,
      direction: "client-to-server",
      kind: "request",
      task: "",
      tool: kind === "tool" ? name : "",
      prompt: kind === "prompt" ? name : "",
      resource: kind === "tool" || kind === "prompt" ? "" : target,
      ...(upstream !== "unknown" && {
        upstream: upstream?.member ?? "",
        name: target && (upstream?.name ?? target),
      }),
    };
    const template = isTemplate ? (isCanonicalTemplate(name) ? name : anyTemplate) : undefined;
    const found = usingMethods[kind].map((method) =>
      followRules(enforced, fallback, new PossibleCall(principal, { ...mcp, method }, template)),
    );
    if (found.includes("possible")) return "possible";
    return found.every((one) => one === "hidden") ? "hidden" : "never";
  }
}

/** The server that a request goes to and its own name for the target; undefined where there is only one server. */
type KnownUpstream = UpstreamTarget | "unknown" | undefined;

/** The length separates names, which can contain any text. Names of servers have no blanks. */
function serverKey(upstream: UpstreamTarget | "unknown"): string {
  return upstream === "unknown" ? "? " : `${upstream.member} ${upstream.name.length} ${upstream.name}`;
}

/** Says nothing about its URIs. */
const anyTemplate = "{uri}";

/** Follows the rules in order, as `decide` does, along every possible path. */
function followRules(rules: readonly Rule[], fallback: RuleSet["fallback"], call: PossibleCall): Reachability {
  for (const rule of rules) {
    const { true: canBeTrue, false: canBeFalse } = outcomesOf(rule, call);
    if (rule.action === "allow" && canBeTrue) return "possible";
    if (canBeFalse || (rule.action === "apply" && canBeTrue)) continue;
    return canBeTrue && rule.refusal.kind === "hidden" ? "hidden" : "never";
  }
  return fallback === "allow" ? "possible" : "never";
}

/** A rule whose rate limit cannot be evaluated fails where its condition is true. Missing scopes can be asked for. */
function outcomesOf({ condition, rate }: Rule, call: PossibleCall): Outcomes {
  const outcomes = condition.outcomes(call);
  if (rate === undefined || !outcomes.true) return outcomes;
  call.hasReadUnknown = false;
  try {
    rate.by.evaluate(call);
    return outcomes;
  } catch {
    return call.hasReadUnknown ? outcomes : { ...outcomes, true: false, error: true };
  }
}
