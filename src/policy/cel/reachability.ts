import { entryTargetOf, type Principal, type Tracking } from "../../core/exchange.ts";
import { canonicalUri, isCanonicalTemplate } from "../provider/canonical-uri.ts";
import type { ListKind } from "../provider/provider.ts";
import { type CallTarget, type KnownUpstream, type Outcomes, PossibleCall } from "./possible-outcomes.ts";
import type { Rule, RuleSet } from "./rules.ts";

/**
 * Whether some request about a name could be allowed. `hidden` means that every request is refused by a rule with `hide`,
 * as if the name did not exist.
 */
export type Reachability = "possible" | "never" | "hidden";

/** Tells for a caller and an entry of a list whether the rules could allow any use of it. */
export type ReachabilityTest = (caller: ListCaller, kind: ListKind, name: string) => Reachability;

/** Who asks, and on which route. */
export interface ListCaller {
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

/** At this number of names of a caller everything about it is forgotten: what is still in use is found out again. */
const maxNames = 4096;

/**
 * Creates the test from the rules for requests. It depends on caller, route, name and server only, so it is made once for
 * them. Needed by bench policy: "list of 50 tools, filtered".
 */
export function createReachability({ rules, fallback }: RuleSet): ReachabilityTest {
  const enforced = rules.map(({ rule }) => rule).filter(({ isShadow }) => !isShadow);
  // By the principal object: new credentials are a new object, with claims and scopes of their own.
  const known = new WeakMap<Principal, Map<string, Reachability>>();

  return (caller, kind, name) => {
    const { principal, route, tracking } = caller;
    const upstream = tracking.entryTarget === undefined ? undefined : (entryTargetOf(caller, kind, name) ?? "unknown");
    let names = known.get(principal);
    if (names === undefined) known.set(principal, (names = new Map()));
    const key = `${kind}${route} ${serverKey(upstream)}${name}`;
    let reached = names.get(key);
    if (reached !== undefined) return reached;
    reached = test(principal, route, kind, name, upstream);
    if (names.size >= maxNames) names.clear();
    names.set(key, reached);
    return reached;
  };

  function test(
    principal: Principal,
    route: string,
    kind: ListKind,
    name: string,
    upstream: KnownUpstream,
  ): Reachability {
    const target = targetOf(kind, name);
    const found = usingMethods[kind].map((method) =>
      reach(enforced, fallback, new PossibleCall(principal, route, method, target, upstream)),
    );
    if (found.includes("possible")) return "possible";
    return found.every((one) => one === "hidden") ? "hidden" : "never";
  }
}

/** The length keeps names apart that hold any text. Names of routes and servers have no blanks. */
function serverKey(upstream: KnownUpstream): string {
  if (upstream === undefined) return "";
  return upstream === "unknown" ? "? " : `${upstream.member} ${upstream.name.length} ${upstream.name}`;
}

function targetOf(kind: ListKind, name: string): CallTarget {
  if (kind === "tool") return { tool: name };
  if (kind === "prompt") return { prompt: name };
  // A request has to name a resource by its canonical URI. A template without expressions stands for one resource.
  if (kind === "resource" || !name.includes("{")) return { resource: canonicalUri(name) ?? name };
  return { template: isCanonicalTemplate(name) ? name : anyTemplate };
}

/** Tells nothing about its URIs. */
const anyTemplate = "{uri}";

/** Follows the rules in order, as `decide` does, along every way that they can take. */
function reach(rules: readonly Rule[], fallback: RuleSet["fallback"], call: PossibleCall): Reachability {
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
