import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { createBreaker } from "../pdp/breaker.ts";
import { withDecisionCache } from "../provider/decision-cache.ts";
import type { Decision, Explanation, PolicyCall, PolicyProvider, PolicyRefusal } from "../provider/provider.ts";
import { createPdpCaller } from "../pdp/call.ts";
import { createPdpClient, type PdpClient, type PdpTlsOptions } from "../pdp/client.ts";
import { parseServiceUrl } from "../pdp/service-url.ts";
import { type AuthZenDecision, textAtPointer } from "./evaluation-api.ts";
import type { AuthZenConfig } from "./config.ts";
import { compileMapping, createDeclaredMappings } from "./mapping.ts";
import { editMember, isResultObligation, readObligations } from "./obligations.ts";
import { createEvaluate } from "./evaluate.ts";
import { createListFilter } from "./list-filter.ts";
import { createDiscovery } from "./metadata.ts";
import { createAuthZenCall } from "./pdp-call.ts";
import { type EvaluationPlan, type MappingOptions, planEvaluation } from "./evaluation-plan.ts";

/** What the provider needs from outside. */
export interface AuthZenDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Own authorities, and a certificate to show the decision point. */
  readonly tls?: PdpTlsOptions | undefined;
  /** The real HTTP client unless given. */
  readonly client?: PdpClient;
  /** What `denied` is where the configuration says nothing. */
  readonly denied?: AuthZenConfig["denied"];
  readonly onRetry?: (() => void) | undefined;
  readonly onBreaker?: ((isOpen: boolean) => void) | undefined;
  readonly onCacheLook?: ((isHit: boolean) => void) | undefined;
}

type Asked = Extract<EvaluationPlan, { readonly type: "ask" }>;

const name = "authzen";
const seen: readonly string[] = ["principal", "mcp"];
const nothingSeen: readonly string[] = [];

/**
 * A decision point that speaks the AuthZEN Authorization API 1.0, as a provider. Messages become questions by the
 * COAZ-MCP binding; only a decision that is `true`, with obligations that can be fulfilled, lets one pass.
 */
export function createAuthZenProvider(config: AuthZenConfig, surroundings: AuthZenDeps): PolicyProvider {
  const { clock, setTimer } = surroundings;
  const service = parseServiceUrl(config.url);
  const client =
    surroundings.client ??
    createPdpClient(service, {
      keepAliveMs: config.connectionKeepalive,
      verifyCertificate: config.verifyServiceCert,
      tls: surroundings.tls,
      setTimer,
    });
  const pdp = createPdpCaller({
    client,
    clock,
    setTimer,
    breaker: config.circuitBreaker ? createBreaker(clock) : undefined,
    breakerSeconds: config.circuitBreakerPause / 1000,
    retryBackoffMs: config.retryBackoff,
    onRetry: surroundings.onRetry,
  });
  const call = createAuthZenCall({
    pdp,
    timeoutMs: config.connectionTimeout,
    retries: config.retries,
    headers: {
      "User-Agent": "Headgate",
      ...(config.token === undefined ? {} : { Authorization: `Bearer ${config.token}` }),
      ...config.headers,
    },
    onBreaker: surroundings.onBreaker,
  });
  const { basePath } = service;
  const discovery = createDiscovery({ url: config.url, basePath, isOn: config.discovery, call, clock });
  const terms = { fallbackMs: config.cache.ttl, maxMs: config.cache.maxAge };
  const evaluate = createEvaluate({ call, discovery, terms });
  const declared = config.declaredMappings === "use" ? createDeclaredMappings() : undefined;
  const settings = mappingOptions(config, declared);
  const isHiding = config.lists === "filter" && (config.denied ?? surroundings.denied ?? "unknown") === "unknown";
  const questions = new WeakMap<InspectedMessage, EvaluationPlan>();
  /** How long the decision point lets a verdict be used again. */
  const lifetimes = new WeakMap<Decision, number>();

  /** Worked out once, though both the cache and whoever asks want to know it. */
  function questionOf(subject: InspectedMessage): EvaluationPlan {
    const known = questions.get(subject);
    if (known !== undefined) return known;
    const question = planEvaluation(subject, settings);
    questions.set(subject, question);
    return question;
  }

  function explain(startedAt: number, read: readonly string[], notes: readonly string[]): Explanation {
    return {
      provider: name,
      rule: undefined,
      read,
      durationMs: clock.now() - startedAt,
      ...(notes.length === 0 ? {} : { notes }),
    };
  }

  /** The no of a decision point, in its own words where the configuration says where they are. */
  function denialFor(question: Asked, decisions: readonly AuthZenDecision[]): PolicyRefusal {
    if (isHiding && question.isListed) return hiddenRefusal;
    const refused = decisions.find(({ isPermitted }) => !isPermitted);
    const said =
      config.reason === undefined || refused === undefined
        ? undefined
        : textAtPointer(refused.context, config.reason)?.slice(0, 1000);
    return { kind: "forbidden", code: "denied_by_policy", reason: said ?? "the policy does not allow this" };
  }

  function decide(
    subject: InspectedMessage,
    question: Asked,
    decisions: readonly AuthZenDecision[],
    startedAt: number,
  ): { readonly verdict: Decision; readonly isKeepable: boolean } {
    const duties = readObligations(decisions, subject.exchange.principal);
    const notes = [`mapping: ${question.mapping}`, ...duties.notes, ...errorsIn(decisions)];
    const explanation = explain(startedAt, seen, notes);
    const isPermitted = decisions.every((decision) => decision.isPermitted);
    const denial = isPermitted ? duties.refusal : denialFor(question, decisions);
    if (denial !== undefined)
      return { verdict: { effect: "deny", refusal: denial, explanation }, isKeepable: !duties.hasAny };
    const change = editMember(subject.message, "params.arguments", duties.argumentEdits);
    const { resultEdits } = duties;
    const verdict: Decision = {
      effect: "allow",
      ...(change === undefined ? {} : { change }),
      ...(resultEdits.length === 0 ? {} : { memory: { resultEdits } }),
      explanation,
    };
    // Obligations are about this caller's login and this message; another one's may come to something else.
    return { verdict, isKeepable: !duties.hasAny };
  }

  async function ask(subject: InspectedMessage, question: Asked, { signal }: PolicyCall): Promise<Decision> {
    const startedAt = clock.now();
    const evaluation = await evaluate(question.request, { requestId: subject.exchange.id, signal });
    if (!evaluation.ok) {
      const { refusal: denial, note } = evaluation;
      return { effect: "deny", refusal: denial, explanation: explain(startedAt, seen, [note]) };
    }
    const { verdict, isKeepable } = decide(subject, question, evaluation.decisions, startedAt);
    lifetimes.set(verdict, isKeepable ? evaluation.ttlMs : 0);
    return verdict;
  }

  function evaluateRequest(subject: InspectedMessage, policyCall: PolicyCall): Decision | Promise<Decision> {
    const question = questionOf(subject);
    switch (question.type) {
      case "pass":
        return {
          effect: "allow",
          explanation: explain(clock.now(), nothingSeen, ["nobody is asked about this"]),
        };
      case "refuse": {
        const { note, isUnlisted } = question;
        // A name that exists and is hidden must not be told from one that does not.
        const denial = isHiding && isUnlisted === true ? hiddenRefusal : question.refusal;
        return { effect: "deny", refusal: denial, explanation: explain(clock.now(), seen, [note]) };
      }
      case "ask":
        return ask(subject, question, policyCall);
    }
  }

  function evaluateResponse({ message }: InspectedMessage, { memory }: PolicyCall): Decision {
    const startedAt = clock.now();
    const edits = isResultObligation(memory) ? memory.resultEdits : [];
    const change = message.kind === "result" ? editMember(message, "result", edits) : undefined;
    return {
      effect: "allow",
      ...(change === undefined ? {} : { change }),
      explanation: explain(
        startedAt,
        nothingSeen,
        edits.length === 0 ? [] : ["as the decision on the request obliges"],
      ),
    };
  }

  const filter = createListFilter({
    evaluate,
    settings,
    declared,
    isShowing: config.lists === "show",
    maxBatch: config.maxBatch,
    maxKept: config.cache.entries,
    now: clock.now,
    onLook: config.cache.entries === 0 ? undefined : surroundings.onCacheLook,
    explain,
  });
  const provider: PolicyProvider = {
    name,
    evaluateRequest,
    evaluateResponse,
    filterList: filter,
    close: () => client.close(),
  };
  if (config.cache.entries === 0) return provider;
  return withDecisionCache(provider, {
    maxEntries: config.cache.entries,
    now: clock.now,
    keyOf: (subject) => {
      const question = questionOf(subject);
      // The kind of no depends on the method only, and that is part of the text.
      return question.type === "ask" ? `${question.mapping} ${question.text.body}` : undefined;
    },
    ttlOf: (verdict) => lifetimes.get(verdict) ?? 0,
    ...(surroundings.onCacheLook === undefined ? {} : { onLook: surroundings.onCacheLook }),
  });
}

const hiddenRefusal: PolicyRefusal = { kind: "hidden", code: "hidden", reason: "There is no such name." };

/** What the questions of a provider are made with. */
export function mappingOptions(config: AuthZenConfig, declared: MappingOptions["declared"]): MappingOptions {
  return { ...config, mappings: mappingsOf(config), declared };
}

function mappingsOf({ mappings }: AuthZenConfig): MappingOptions["mappings"] {
  return new Map(
    Object.entries(mappings).map(([tool, mapping]) => [
      tool,
      // They were checked with the configuration; one that is broken nevertheless refuses every call.
      compileMapping(mapping, () => {}),
    ]),
  );
}

/** What the decision point says went wrong with some of its decisions (AuthZEN, section 7.2.1); for operators. */
function errorsIn(decisions: readonly AuthZenDecision[]): readonly string[] {
  return decisions.flatMap(({ context: { error } }) =>
    error === undefined ? [] : [`error: ${JSON.stringify(error)}`],
  );
}
