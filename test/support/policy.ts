import type { Exchange } from "../../src/core/exchange.ts";
import type { InspectedMessage } from "../../src/core/interceptors/inspected-message.ts";
import type { Handler, Reply } from "../../src/core/pipeline.ts";
import type { DecisionEvent } from "../../src/policy/provider/decision-event.ts";
import { createEnforcement, type EnforcementOptions } from "../../src/policy/enforce.ts";
import type {
  PolicyRefusal,
  Explanation,
  ListPage,
  PolicyCall,
  PolicyProvider,
  Decision,
} from "../../src/policy/provider/provider.ts";
import { messageFrom } from "./exchange.ts";
import { echo } from "./interceptors.ts";

/** The explanation of decisions whose reasons do not matter to a test. */
export const explanation: Explanation = {
  provider: "fake",
  rule: "rule-1",
  read: ["mcp.tool"],
  durationMs: 0.5,
};

/** Lets a message pass. */
export function allow(facts: Omit<Decision & { effect: "allow" }, "effect" | "explanation"> = {}): Decision {
  return { effect: "allow", ...facts, explanation };
}

/** Refuses a message. */
export function deny(facts: Partial<PolicyRefusal> = {}): Decision {
  const refusal: PolicyRefusal = {
    kind: "forbidden",
    code: "not_yours",
    reason: "this is not for you",
    ...facts,
  };
  return { effect: "deny", refusal, explanation };
}

/** What a fake provider is asked with. */
export interface FakeRules {
  readonly request?: (subject: InspectedMessage, call: PolicyCall) => Decision | Promise<Decision>;
  readonly response?: (subject: InspectedMessage, call: PolicyCall) => Decision | Promise<Decision>;
  /** Whether a name may be seen; without it the provider knows nothing of lists. */
  readonly sees?: (name: string, question: ListPage) => boolean;
}

/** A provider that decides as a test wants, at once, and lets everything else pass. */
export function fakeProvider(rules: FakeRules = {}): PolicyProvider {
  const { request = () => allow(), response = () => allow(), sees } = rules;
  return {
    name: "fake",
    evaluateRequest: request,
    evaluateResponse: response,
    ...(sees === undefined
      ? {}
      : {
          filterList: (question) => ({
            visible: question.entries.map(({ name }) => sees(name, question)),
            explanation,
          }),
        }),
  };
}

/** Enforcement in front of a peer in memory. */
export interface PolicyBench {
  readonly handle: Handler;
  /** What reached the peer, in order. */
  readonly sent: readonly Exchange[];
  readonly decisions: readonly DecisionEvent[];
}

/** Puts a policy in front of a peer; decisions are numbered. */
export function createPolicyBench(
  provider: PolicyProvider | FakeRules,
  peer: (exchange: Exchange) => Promise<Reply> = echo,
  options: Partial<EnforcementOptions> = {},
): PolicyBench {
  const sent: Exchange[] = [];
  const decisions: DecisionEvent[] = [];
  let count = 0;
  const enforcement = createEnforcement({
    provider: "name" in provider ? provider : fakeProvider(provider),
    mode: "enforce",
    refusals: { profile: "default", refusalStatus: "in-band" },
    newDecisionId: () => `decision-${++count}`,
    onDecision: (event) => void decisions.push(event),
    ...options,
  });
  const handle = enforcement((exchange) => {
    sent.push(exchange);
    return peer(exchange);
  });
  return { handle, sent, decisions };
}

/** A peer that answers every request with this result. */
export function answering(result: unknown, facts: Omit<Reply, "message"> = {}): Handler {
  return async ({ message }) =>
    message.kind === "request" ? { message: resultFor(message.id.json, result), ...facts } : { message: undefined };
}

function resultFor(id: string, result: unknown) {
  return messageFrom(`{"jsonrpc":"2.0","id":${id},"result":${JSON.stringify(result)}}`);
}
