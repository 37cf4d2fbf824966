import type { RouteConfig } from "../../config/config.ts";
import { anonymous } from "../../core/exchange.ts";
import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { RuleTrace } from "../../policy/cel/decide.ts";
import { createCelProvider } from "../../policy/cel/provider.ts";
import type { Decision } from "../../policy/provider/provider.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Frame } from "../../recorder/contract.ts";
import type { PolicyExplanation } from "./explanation.ts";
import { messageAt, missingPaths, pathSteps, type ReplayedExchange, toReplayedExchange } from "./replayed-exchange.ts";
import { decideAtOnce } from "./sample-exchange.ts";

/** How to explain. */
export interface ExplainOptions {
  readonly policy: RouteConfig["policy"];
  /** Whether the values that rules looked at are shown, or only where they stand. */
  readonly showsValues: boolean;
}

type PhaseExplanation = PolicyExplanation["phases"][number];

/** Evaluates a recorded exchange against the rules of a policy, and reports the outcome of each. */
export function explainRecorded(frames: readonly Frame[], { policy, showsValues }: ExplainOptions): PolicyExplanation {
  if (policy === undefined) return { policy: "none", phases: [] };
  if ((policy.pingAuthorize ?? policy.authzen) !== undefined) return { policy: "remote", phases: [] };
  const [first] = frames;
  const replayed =
    first === undefined ? undefined : toReplayedExchange(first, { callers: noCallers, parent: undefined });
  if (replayed === undefined) return { policy: "unrecorded", phases: [] };
  const { exchange } = replayed;
  let steps: RuleTrace[] = [];
  const provider = createCelProvider(policy, { clock: { now: () => 0 }, onStep: (step) => steps.push(step) });
  const explain = (inspected: InspectedMessage): { readonly phase: PhaseExplanation; readonly decision: Decision } => {
    steps = [];
    const decision = decideAtOnce(provider, inspected);
    return { decision, phase: describe(inspected, decision, { steps, replayed, showsValues }) };
  };
  const inspected = InspectedMessage.of(exchange);
  const request = explain(inspected);
  const far = exchange.direction === "client-to-server" ? "upstream" : "client";
  const answer = messageAt(frames, far, "received", true);
  if (request.decision.effect === "deny" || answer === undefined || exchange.message.kind !== "request")
    return { policy: "rules", phases: [request.phase] };
  const { change } = request.decision;
  const sent =
    change === undefined ? undefined : applyChange(exchange.message, change, { revision: exchange.revision });
  const asked = sent?.ok === true && sent.message.kind === "request" ? sent.message : exchange.message;
  return {
    policy: "rules",
    phases: [request.phase, explain(InspectedMessage.answering(exchange, asked, answer)).phase],
  };
}

/** Evaluates a message that was not recorded. */
export function explainMessage(inspected: InspectedMessage, policy: RouteConfig["policy"]): PolicyExplanation {
  if (policy === undefined) return { policy: "none", phases: [] };
  if ((policy.pingAuthorize ?? policy.authzen) !== undefined) return { policy: "remote", phases: [] };
  const steps: RuleTrace[] = [];
  const provider = createCelProvider(policy, { clock: { now: () => 0 }, onStep: (step) => steps.push(step) });
  const decision = decideAtOnce(provider, inspected);
  const { exchange } = inspected;
  const context = {
    principal: exchange.principal.id,
    route: exchange.route,
    revision: exchange.revision,
    transport: "http",
  };
  const replayed = { exchange, context, isCallerKnown: true, frames: [] };
  const phase = describe(inspected, decision, { steps, replayed, showsValues: true });
  return { policy: "rules", phases: [{ ...phase, missing: [] }] };
}

const noCallers = new Map([[anonymous.id, anonymous]]);

function describe(
  { phase, message }: InspectedMessage,
  decision: Decision,
  {
    steps,
    replayed,
    showsValues,
  }: { readonly steps: readonly RuleTrace[]; readonly replayed: ReplayedExchange; readonly showsValues: boolean },
): PhaseExplanation {
  const { rule, read } = decision.explanation;
  const answer = phase === "response" ? message : undefined;
  const isChanged = decision.effect === "allow" && decision.change !== undefined;
  return {
    phase,
    effect: isChanged ? "change" : decision.effect,
    ...(rule === undefined ? {} : { rule }),
    ...(decision.effect === "deny" ? { reason: decision.refusal.reason } : {}),
    rules: steps.map((step) => ({
      id: step.rule.id,
      action: step.rule.action,
      shadow: step.rule.isShadow,
      condition: step.rule.condition.text,
      outcome: step.outcome,
      ...(step.outcome === "failed" ? { problem: step.problem } : {}),
    })),
    read: read.map((path) => {
      const value = showsValues ? valueAt(path, replayed, answer) : undefined;
      return { path, ...(value === undefined ? {} : { value }) };
    }),
    missing: missingPaths(read, replayed, answer),
  };
}

const maxValue = 500;

/** The value that a path of an explanation names, as JSON; undefined for what is not in messages. */
function valueAt(
  path: string,
  { exchange, context }: ReplayedExchange,
  answer: InspectedMessage["message"] | undefined,
): string | undefined {
  const [variable = "", ...steps] = pathSteps(path);
  const { message } = exchange;
  const params = memberValue(message, "params");
  const roots: Readonly<Record<string, unknown>> = {
    mcp: {
      method: message.method,
      tool: member(params, "name"),
      name: member(params, "name") ?? member(params, "uri"),
      arguments: member(params, "arguments"),
      params,
    },
    principal: { id: context.principal },
    result: answer === undefined ? undefined : memberValue(answer, "result"),
    error: answer === undefined ? undefined : memberValue(answer, "error"),
  };
  let value: unknown = roots[variable];
  for (const step of steps) value = member(value, step);
  const text = JSON.stringify(value) as string | undefined;
  return text !== undefined && text.length > maxValue ? `${text.slice(0, maxValue)}…` : text;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}
