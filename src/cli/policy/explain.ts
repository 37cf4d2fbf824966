import * as z from "zod";

import { loadConfig } from "../../config/load.ts";
import { formatProblem } from "../../config/problem.ts";
import { applyChange } from "../../core/interceptors/change.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { RuleTrace } from "../../policy/cel/decide.ts";
import type { Decision } from "../../policy/provider/provider.ts";
import { memberSource } from "../../protocol/json/read.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import { exitCodes } from "../commands.ts";
import type { CliIo } from "../io.ts";
import {
  chooseRoute,
  createRouteProvider,
  offlineCall,
  principalInput,
  requestInput,
  toMessage,
  toPrincipal,
  toSampleExchange,
} from "./sample-exchange.ts";
import type { RouteConfig } from "../../config/config.ts";
import { mappingOptions } from "../../policy/authzen/provider.ts";
import { planEvaluation } from "../../policy/authzen/evaluation-plan.ts";

/** What is to be explained, as it was typed. */
export interface ExplainOptions {
  readonly config: string;
  readonly method: string;
  /** JSON texts. */
  readonly params: string | undefined;
  readonly principal: string | undefined;
  readonly answer: string | undefined;
  readonly route: string | undefined;
}

/** `headgate policy explain`: asks the policy about one message and shows what each rule said. */
export async function policyExplain(options: ExplainOptions, io: CliIo): Promise<number> {
  const loaded = await loadConfig({ file: options.config, env: io.env, readFile: io.readFile });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(`${formatProblem(problem, options.config)}\n`);
    return exitCodes.config.code;
  }
  const chosen = chooseRoute(loaded.config, options.route);
  if (!chosen.ok) return fail(io, chosen.problem);
  const asked = parseSubject(options, chosen.route.name);
  if (typeof asked === "string") return fail(io, asked);
  const { subject, principal } = asked;
  const head = `${subject.phase} ${options.method} on route ${chosen.route.name}, by ${principal.id} (${principal.kind})`;
  const authzen = chosen.route.policy?.authzen;
  if (authzen !== undefined) {
    io.out([head, ...describeAuthZenRequest(subject, authzen), ""].join("\n"));
    return exitCodes.ok.code;
  }
  const steps: RuleTrace[] = [];
  const rules = createRouteProvider(chosen.route, (step) => steps.push(step));
  if (!rules.ok) return fail(io, rules.problem);
  const { provider } = rules;
  const verdict =
    subject.phase === "request"
      ? provider.evaluateRequest(subject, offlineCall)
      : provider.evaluateResponse(subject, offlineCall);
  if (verdict instanceof Promise) return fail(io, "the policy did not decide at once");
  io.out([head, ...steps.map(describeStep), ...describeDecision(subject, verdict), ""].join("\n"));
  return exitCodes.ok.code;
}

function fail(io: CliIo, problem: string): number {
  io.err(`headgate policy explain: ${problem}\n`);
  return exitCodes.usage.code;
}

interface SampleSubject {
  readonly subject: InspectedMessage;
  readonly principal: Principal;
}

function parseSubject({ method, params, principal, answer }: ExplainOptions, route: string): SampleSubject | string {
  const who = principal === undefined ? undefined : principalInput.safeParse(parseJsonOrUndefined(principal));
  if (who?.success === false) return `--principal is no principal: ${z.prettifyError(who.error)}`;
  const caller = who === undefined ? anonymous : toPrincipal(who.data);
  const value = params === undefined ? undefined : parseJsonOrUndefined(params);
  if (params !== undefined && value === undefined) return "the parameters are no JSON";
  const asked = toMessage({ id: 1, method, ...(value === undefined ? {} : { params: value }) });
  if (!asked.ok) return `the message is none: ${asked.problem}`;
  const exchange = toSampleExchange(asked.message, {
    route,
    principal: caller,
    request: requestInput.parse({}),
  });
  if (answer === undefined) return { subject: InspectedMessage.of(exchange), principal: caller };
  const said = parseJsonOrUndefined(answer);
  if (typeof said !== "object" || said === null) return "--answer is no JSON object";
  const answered = toMessage({ id: 1, ...said });
  if (!answered.ok || asked.message.kind !== "request") {
    return `--answer is none: ${answered.ok ? "nothing was asked" : answered.problem}`;
  }
  return {
    subject: InspectedMessage.answering(exchange, asked.message, answered.message),
    principal: caller,
  };
}

/** The value of JSON text; undefined where it is none. */
function parseJsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function describeStep(step: RuleTrace): string {
  const { id, action, isShadow, condition } = step.rule;
  const outcome = step.outcome === "failed" ? `failed: ${step.problem}` : step.outcome;
  const text = condition.text.trim().replaceAll(/\s+/gu, " ");
  return `  ${id} (${action}${isShadow ? ", shadow" : ""}) is ${outcome}: ${text}`;
}

function describeDecision(subject: InspectedMessage, verdict: Decision): readonly string[] {
  const { rule, read, shadow = [], notes = [] } = verdict.explanation;
  const by = rule === undefined ? "no rule decided" : `by rule ${rule}`;
  const head =
    verdict.effect === "allow"
      ? `${verdict.change === undefined ? "allow" : "allow, changed"}: ${by}`
      : `deny (${verdict.refusal.kind}, ${verdict.refusal.code}): ${by}`;
  return [
    head,
    ...(verdict.effect === "deny" ? [`  the agent is told: ${verdict.refusal.reason}`] : changeLines(subject, verdict)),
    ...(read.length === 0 ? [] : [`  looked at: ${read.join(", ")}`]),
    ...notes.map((note) => `  note: ${note}`),
    ...shadow.map(({ rule: id, effect, reason }) => `  in shadow mode, ${id} would ${effect}: ${reason}`),
  ];
}

function changeLines(
  { message, exchange }: InspectedMessage,
  verdict: Decision & { readonly effect: "allow" },
): readonly string[] {
  if (verdict.change === undefined) return [];
  const changed = applyChange(message, verdict.change, { revision: exchange.revision });
  if (!changed.ok) return [`  but the change cannot be made: ${changed.problem}`];
  const isAnswer = message.method === undefined;
  const source = memberSource(changed.message, isAnswer ? "result" : "params") ?? "";
  return [`  ${isAnswer ? "result is" : "params are"} then: ${source}`];
}

/** The settings of an AuthZEN decision point. */
type AuthZenConfig = NonNullable<NonNullable<RouteConfig["policy"]>["authzen"]>;

/** What an AuthZEN decision point would be asked about a message, in lines; nobody is asked. */
function describeAuthZenRequest(subject: InspectedMessage, config: AuthZenConfig): readonly string[] {
  if (subject.phase === "response") return ["allow: answers are passed on as the decision on the request says"];
  // What a server declares is known only to a gateway that runs.
  const question = planEvaluation(subject, mappingOptions(config, undefined));
  switch (question.type) {
    case "pass":
      return ["allow: nobody is asked about this"];
    case "refuse": {
      const { kind, code, reason } = question.refusal;
      return [`deny (${kind}, ${code}): nobody is asked`, `  the agent is told: ${reason}`];
    }
    case "evaluate": {
      const isCall = subject.method === "tools/call";
      return [
        `${config.url} would be asked, by the ${question.mapping} mapping:`,
        `  ${question.body}`,
        ...(isCall && question.mapping === "default" && config.declaredMappings === "use"
          ? ["  note: a mapping that the tool declares would be used instead; it is not known here"]
          : []),
      ];
    }
  }
}
