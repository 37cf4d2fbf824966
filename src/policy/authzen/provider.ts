import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { GatewayError } from "../../errors.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import { createTtlCache } from "../../lib/ttl-cache.ts";
import { createBreaker, createPdpCaller } from "../pdp/call.ts";
import { createPdpClient, parseServiceUrl, type PdpClient, type PdpTlsOptions } from "../pdp/client.ts";
import {
  type Decision,
  explain,
  type Explanation,
  hiddenRefusal,
  type ListDecision,
  type ListPage,
  type PolicyCall,
  type PolicyProvider,
  type PolicyRefusal,
} from "../provider/provider.ts";
import type { AuthZenConfig } from "./config.ts";
import { type IdentityOptions, listRequest } from "./default-mappings.ts";
import { type AuthZenDecision, createEvaluate, type Evaluate, formatRequest, textAtPointer } from "./evaluation-api.ts";
import { type EvaluationPlan, type MappingOptions, planEvaluation } from "./evaluation-plan.ts";
import { compileMapping, createDeclaredMappings, type DeclaredMappings } from "./mapping.ts";
import { editMember, isResultObligation, readObligations } from "./obligations.ts";
import { type CallAuthZen, createAuthZenCall, createDiscovery, type FailedCall } from "./pdp-call.ts";

export interface AuthZenDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly tls?: PdpTlsOptions | undefined;
  /** For tests; defaults to the HTTP client. */
  readonly client?: PdpClient;
  /** The default of `denied`. */
  readonly denied?: AuthZenConfig["denied"];
  readonly onRetry?: (() => void) | undefined;
  readonly onBreaker?: ((isOpen: boolean) => void) | undefined;
  readonly onCacheLookup?: ((isHit: boolean) => void) | undefined;
}

type Evaluated = Extract<EvaluationPlan, { readonly type: "evaluate" }>;

const name = "authzen";
const read: readonly string[] = ["principal", "mcp"];

/**
 * Creates the provider for an AuthZEN decision point. Messages become evaluation requests by the COAZ-MCP binding. A
 * message passes only if all its decisions are `true` and their obligations can be fulfilled.
 */
export function createAuthZenProvider(config: AuthZenConfig, deps: AuthZenDeps): PolicyProvider {
  const { clock } = deps;
  const { url, cache: cacheConfig, lists } = config;
  const service = parseServiceUrl(url);
  const client =
    deps.client ??
    createPdpClient(service, {
      keepAliveMs: config.connectionKeepalive,
      verifyCertificate: config.verifyServiceCert,
      tls: deps.tls,
      setTimer: deps.setTimer,
    });
  const call = createCall(config, client, deps);
  const { basePath } = service;
  const discovery = createDiscovery({ url, basePath, isEnabled: config.discovery, call, clock });
  const cacheLimits = { fallbackMs: cacheConfig.ttl, maxMs: cacheConfig.maxAge };
  const evaluate = createEvaluate({ call, discovery, cacheLimits });
  const declared = config.declaredMappings === "use" ? createDeclaredMappings() : undefined;
  const options = mappingOptions(config, declared);
  const hidesDenied = lists === "filter" && (config.denied ?? deps.denied ?? "unknown") === "unknown";
  const onCacheLookup = cacheConfig.entries === 0 ? undefined : deps.onCacheLookup;
  const cache = createTtlCache<Decision>(cacheConfig.entries, clock.now);

  const explained = (startedAt: number, notes: readonly string[]): Explanation =>
    explain(name, notes, clock.now() - startedAt, read);

  /** A denial, with the decision point's reason if the configuration says where it is. */
  function refusalFor(plan: Evaluated, decisions: readonly AuthZenDecision[]): PolicyRefusal {
    if (hidesDenied && plan.isListed) return hiddenRefusal;
    const denied = decisions.find(({ isPermitted }) => !isPermitted);
    const reason =
      config.reason === undefined || denied === undefined ? undefined : textAtPointer(denied.context, config.reason);
    return {
      kind: "forbidden",
      code: "denied_by_policy",
      reason: reason?.slice(0, 1000) ?? "The policy does not allow this.",
    };
  }

  async function evaluatePlan(
    { message, exchange }: InspectedMessage,
    plan: Evaluated,
    { signal }: PolicyCall,
    cacheKey: string,
  ): Promise<Decision> {
    const startedAt = clock.now();
    const evaluation = await evaluate(plan.request, { requestId: exchange.id, signal });
    if (!evaluation.ok)
      return { effect: "deny", refusal: evaluation.refusal, explanation: explained(startedAt, [evaluation.note]) };
    const { decisions, ttlMs } = evaluation;
    const obligations = readObligations(decisions, exchange.principal);
    const notes = [`mapping: ${plan.mapping}`, ...obligations.notes, ...errorNotes(decisions)];
    const explanation = explained(startedAt, notes);
    const isPermitted = decisions.every((decision) => decision.isPermitted);
    const { argumentEdits, resultEdits } = obligations;
    const edited = editMember(message, "params.arguments", isPermitted ? argumentEdits : []);
    const unfulfilled = "refusal" in edited ? edited : undefined;
    if (unfulfilled !== undefined) notes.push(unfulfilled.note);
    const refusal = isPermitted ? (obligations.refusal ?? unfulfilled?.refusal) : refusalFor(plan, decisions);
    const change = "refusal" in edited ? undefined : edited.change;
    const decision: Decision =
      refusal === undefined
        ? {
            effect: "allow",
            ...(change === undefined ? {} : { change }),
            ...(resultEdits.length === 0 ? {} : { memory: { resultEdits } }),
            names: plan.names,
            explanation,
          }
        : { effect: "deny", refusal, explanation };
    // Obligations depend on this caller's login and this message, so their decisions are not cached.
    if (!obligations.hasAny) cache.set(cacheKey, decision, ttlMs);
    return decision;
  }

  function evaluateRequest(subject: InspectedMessage, policyCall: PolicyCall): MaybePromise<Decision> {
    const plan = planEvaluation(subject, options);
    switch (plan.type) {
      case "pass":
        return { effect: "allow", explanation: explain(name, ["not evaluated"]) };
      case "refuse": {
        // A hidden tool must look like one that does not exist.
        const refusal = hidesDenied && plan.isUnlisted === true ? hiddenRefusal : plan.refusal;
        return { effect: "deny", refusal, explanation: explain(name, [plan.note], 0, read) };
      }
      case "evaluate": {
        const key = `${plan.mapping} ${plan.body}`;
        const cached = cache.get(key);
        onCacheLookup?.(cached !== undefined);
        // Concurrent evaluations are not shared: each ends with its own caller.
        return cached ?? evaluatePlan(subject, plan, policyCall, key);
      }
    }
  }

  return {
    name,
    evaluateRequest,
    evaluateResponse: (subject, { memory }) => evaluateResult(subject, memory, clock),
    // The decision about the request also decided about its result.
    argumentsForResponses: [],
    filterList: createAuthZenListFilter({
      provider: name,
      evaluate,
      identity: options,
      declared,
      showsAll: lists === "show",
      maxBatch: config.maxBatch,
      cacheEntries: cacheConfig.entries,
      now: clock.now,
      onCacheLookup,
    }),
    close: () => client.close(),
  };
}

function createCall(
  config: AuthZenConfig,
  client: PdpClient,
  { clock, setTimer, onRetry, onBreaker }: AuthZenDeps,
): CallAuthZen {
  return createAuthZenCall({
    pdp: createPdpCaller({
      client,
      clock,
      setTimer,
      breaker: config.circuitBreaker ? createBreaker(clock) : undefined,
      breakerSeconds: config.circuitBreakerPause / 1000,
      retryBackoffMs: config.retryBackoff,
      onRetry,
    }),
    timeoutMs: config.connectionTimeout,
    retries: config.retries,
    headers: {
      "User-Agent": "Headgate",
      ...(config.token === undefined ? {} : { Authorization: `Bearer ${config.token}` }),
      ...config.headers,
    },
    onBreaker,
  });
}

/** Fulfils the obligations about the result that came with the decision about the request. */
function evaluateResult({ message }: InspectedMessage, memory: unknown, clock: Clock): Decision {
  const startedAt = clock.now();
  const edits = message.kind === "result" && isResultObligation(memory) ? memory.resultEdits : [];
  const edited = editMember(message, "result", edits);
  if ("refusal" in edited) {
    const { refusal, note } = edited;
    return { effect: "deny", refusal, explanation: explain(name, [note], clock.now() - startedAt) };
  }
  const { change } = edited;
  const notes = edits.length === 0 ? [] : ["obligations of the decision about the request"];
  return {
    effect: "allow",
    ...(change === undefined ? {} : { change }),
    explanation: explain(name, notes, clock.now() - startedAt),
  };
}

/** The options for planning evaluations. The mappings were checked with the configuration. */
export function mappingOptions(config: AuthZenConfig, declared: MappingOptions["declared"]): MappingOptions {
  const mappings = Object.entries(config.mappings).map(
    ([tool, mapping]) => [tool, compileMapping(mapping, () => {})] as const,
  );
  return { ...config, mappings: new Map(mappings), declared };
}

/** Errors that the decision point reports with its decisions (AuthZEN, section 7.2.1). */
function errorNotes(decisions: readonly AuthZenDecision[]): readonly string[] {
  return decisions.flatMap(({ context: { error } }) =>
    error === undefined ? [] : [`error: ${JSON.stringify(error)}`],
  );
}

interface ListFilterOptions {
  readonly provider: string;
  readonly evaluate: Evaluate;
  readonly identity: IdentityOptions;
  /** Learns the mappings that listed tools declare. */
  readonly declared: DeclaredMappings | undefined;
  /** Show everything, and only learn from lists. */
  readonly showsAll: boolean;
  readonly maxBatch: number;
  readonly cacheEntries: number;
  readonly now: () => number;
  readonly onCacheLookup?: ((isHit: boolean) => void) | undefined;
}

const readForLists: readonly string[] = ["principal", "mcp", "entry.name"];

/**
 * Creates the function that filters a page to the entries that the caller may use, in one batch. Mappings that tools
 * declare are about arguments, so they are not used here; the call itself is evaluated with them.
 */
function createAuthZenListFilter(
  options: ListFilterOptions,
): (list: ListPage, call: PolicyCall) => MaybePromise<ListDecision> {
  const { provider, evaluate, identity, declared, showsAll, maxBatch, cacheEntries, now, onCacheLookup } = options;
  const cache = createTtlCache<readonly boolean[]>(cacheEntries, now);

  async function evaluateNames(
    { subject, kind }: ListPage,
    names: readonly string[],
    { signal }: PolicyCall,
  ): Promise<readonly boolean[] | FailedCall> {
    const { exchange } = subject;
    const request = listRequest(exchange, kind, names, identity);
    const key = formatRequest(request);
    const cached = cache.get(key);
    onCacheLookup?.(cached !== undefined);
    if (cached !== undefined) return cached;
    const evaluation = await evaluate(request, { requestId: exchange.id, signal });
    if (!evaluation.ok) return evaluation;
    const visible = evaluation.decisions.map((decision) => isVisible(decision, exchange.principal));
    cache.set(key, visible, evaluation.ttlMs);
    return visible;
  }

  async function filter(list: ListPage, call: PolicyCall): Promise<ListDecision> {
    const startedAt = now();
    const explained = (...notes: string[]): Explanation => explain(provider, notes, now() - startedAt, readForLists);
    const { entries } = list;
    const visible: boolean[] = [];
    try {
      for (let from = 0; from < entries.length; from += maxBatch) {
        const names = entries.slice(from, from + maxBatch).map((entry) => entry.name);
        const page = await evaluateNames(list, names, call);
        if ("refusal" in page)
          return { visible: entries.map(() => false), refusal: page.refusal, explanation: explained(page.note) };
        visible.push(...page);
      }
    } catch (error) {
      const { code, message } = GatewayError.from(error);
      if (code !== "invalid_params") throw error;
      return { visible: entries.map(() => false), explanation: explained(message) };
    }
    return { visible, explanation: explained() };
  }

  return (list, call) => {
    const { subject, kind, entries } = list;
    if (kind === "tool" && subject.method === "tools/list") declared?.learn(entries);
    if (!showsAll) return filter(list, call);
    return { visible: entries.map(() => true), explanation: explain(provider, ["lists are not filtered"]) };
  };
}

/**
 * An entry with an obligation that cannot be fulfilled is left out (Obligations profile, "Obligations and Search
 * Requests"). One that needs a stronger login is shown; the login is asked for when it is used.
 */
function isVisible(decision: AuthZenDecision, principal: Parameters<typeof readObligations>[1]): boolean {
  if (!decision.isPermitted) return false;
  const { refusal } = readObligations([decision], principal);
  return refusal === undefined || refusal.code === "step_up_required";
}
