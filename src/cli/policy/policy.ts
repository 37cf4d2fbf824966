import * as z from "zod";

import type { Config, RouteConfig } from "../../config/config.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import {
  chooseRoute,
  createRouteProvider,
  decideAtOnce,
  principalInput,
  requestInput,
  type SamplePrincipal,
  toMessage,
  toSampleExchange,
  toSamplePrincipal,
} from "../../gateway/evaluation/sample-exchange.ts";
import { closestName } from "../../lib/closest-name.ts";
import { isObject } from "../../lib/is-object.ts";
import { planEvaluation } from "../../policy/authzen/evaluation-plan.ts";
import { mappingOptions } from "../../policy/authzen/provider.ts";
import type { RuleTrace } from "../../policy/cel/decide.ts";
import type { Decision } from "../../policy/provider/provider.ts";
import { methodNames } from "../../protocol/methods.ts";
import { memberSource } from "../../protocol/json/read.ts";
import { exitCodes } from "../commands.ts";
import { configInFolder, defineCommand, loadConfigFile, UsageError } from "../define-command.ts";
import type { CliIo, CommandIo } from "../io.ts";
import { policyTest } from "./cases.ts";
import { policyReplay } from "./replay.ts";

/** `headgate policy test`, `explain` and `replay`: evaluates rules without starting a gateway. */
export const policy = defineCommand("policy", async ({ values, positionals }, io: CommandIo) => {
  const [verb, first, second, ...rest] = positionals;
  const { config = configInFolder(), route, principal, answer, principals, strict = false, json = false } = values;
  if (rest.length > 0) throw new UsageError("too many arguments");
  switch (verb) {
    case "test":
      if (first === undefined || second !== undefined) throw new UsageError("test takes one FILE of cases");
      return policyTest(first, io);
    case "explain":
      if (config === undefined) throw new UsageError("explain needs --config FILE, or a headgate.yaml in this folder");
      if (first === undefined) throw new UsageError("explain needs a METHOD, such as tools/call");
      return policyExplain({ config, method: first, params: second, principal, answer, route }, io);
    case "replay":
      if (config === undefined) throw new UsageError("replay needs --config FILE, or a headgate.yaml in this folder");
      if (first === undefined || second !== undefined) throw new UsageError("replay takes one CAPTURE");
      return policyReplay({ capture: first, config, route, principals, strict, json }, io);
    case undefined:
      throw new UsageError("expected `test`, `explain` or `replay`");
    default:
      throw new UsageError(`unknown verb \`${verb}\`; expected \`test\`, \`explain\` or \`replay\``);
  }
});

/** The arguments of `headgate policy explain`. */
interface PolicyExplainOptions {
  readonly config: string;
  readonly method: string;
  /** JSON, as is `answer`. */
  readonly params: string | undefined;
  /** A short name, an id, or JSON. */
  readonly principal: string | undefined;
  readonly answer: string | undefined;
  readonly route: string | undefined;
}

/** `headgate policy explain`: evaluates the policy for one message and shows the outcome of every rule. */
async function policyExplain(options: PolicyExplainOptions, io: CliIo): Promise<number> {
  const config = await loadConfigFile(options.config, io);
  const route = chooseRoute(config, options.route);
  const { principal, warning } = parsePrincipal(options.principal, route, config);
  if (warning !== undefined) io.err(`headgate policy: --principal: ${warning} (warning)\n`);
  const meant = methodNames.includes(options.method) ? undefined : closestName(options.method, methodNames);
  if (meant !== undefined)
    io.err(`headgate policy: MCP has no method \`${options.method}\`; did you mean \`${meant}\`? (warning)\n`);
  const inspected = parseSample(options, route.name, principal);
  const head = `${inspected.phase} ${options.method} on route ${route.name}, by ${principal.id} (${principal.kind})`;
  io.out([head, ...explain(inspected, route), ""].join("\n"));
  return exitCodes.ok.code;
}

function explain(inspected: InspectedMessage, route: RouteConfig): readonly string[] {
  const authzen = route.policy?.authzen;
  if (authzen !== undefined) return describeAuthZenRequest(inspected, authzen);
  const steps: RuleTrace[] = [];
  const decision = decideAtOnce(
    createRouteProvider(route, (step) => steps.push(step)),
    inspected,
  );
  return [...steps.map(describeStep), ...describeDecision(inspected, decision)];
}

function parsePrincipal(text: string | undefined, route: RouteConfig, config: Config): SamplePrincipal {
  if (text === undefined) return { principal: anonymous, warning: undefined };
  // Ids contain the authenticator or the issuer, names never do.
  const written = text.startsWith("{")
    ? parseJson("--principal", text)
    : /[:#/]/u.test(text)
      ? { id: text }
      : { name: text };
  const parsed = principalInput.safeParse(written);
  if (!parsed.success) throw new UsageError(`--principal is not a principal: ${z.prettifyError(parsed.error)}`);
  return toSamplePrincipal(parsed.data, route, config);
}

function parseSample(
  { method, params, answer }: PolicyExplainOptions,
  route: string,
  principal: Principal,
): InspectedMessage {
  const request = toMessage({
    id: 1,
    method,
    ...(params === undefined ? {} : { params: parseJson("PARAMS", params) }),
  });
  if (!request.ok) throw new UsageError(`invalid message: ${request.problem}`);
  const exchange = toSampleExchange(request.message, { route, principal, request: requestInput.parse({}) });
  if (answer === undefined) return InspectedMessage.of(exchange);
  const members = parseJson("--answer", answer);
  if (!isObject(members)) throw new UsageError("--answer is not a JSON object");
  const response = toMessage({ id: 1, ...members });
  if (!response.ok) throw new UsageError(`--answer is not a response: ${response.problem}`);
  if (request.message.kind !== "request") throw new UsageError(`--answer: ${method} is a notification`);
  return InspectedMessage.answering(exchange, request.message, response.message);
}

function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UsageError(`${name} is not JSON; write it in single quotes, such as '{"name":"add"}'`);
  }
}

function describeStep(step: RuleTrace): string {
  const { id, action, isShadow, condition } = step.rule;
  const outcome = step.outcome === "failed" ? `failed: ${step.problem}` : step.outcome;
  const text = condition.text.trim().replaceAll(/\s+/gu, " ");
  return `  ${id} (${action}${isShadow ? ", shadow" : ""}) is ${outcome}: ${text}`;
}

function describeDecision(inspected: InspectedMessage, decision: Decision): readonly string[] {
  const { rule, read, shadow = [], notes = [] } = decision.explanation;
  const by = rule === undefined ? "no rule decided" : `by rule ${rule}`;
  const head =
    decision.effect === "allow"
      ? `${decision.change === undefined ? "allow" : "allow, changed"}: ${by}`
      : `deny (${decision.refusal.kind}, ${decision.refusal.code}): ${by}`;
  return [
    head,
    ...(decision.effect === "deny"
      ? [`  the agent sees: ${decision.refusal.reason}`]
      : changeLines(inspected, decision)),
    ...(read.length === 0 ? [] : [`  read: ${read.join(", ")}`]),
    ...notes.map((note) => `  note: ${note}`),
    ...shadow.map(({ rule: id, effect, reason }) => `  shadow: ${id} would ${effect}: ${reason}`),
  ];
}

function changeLines(
  { message, exchange }: InspectedMessage,
  decision: Decision & { readonly effect: "allow" },
): readonly string[] {
  if (decision.change === undefined) return [];
  const changed = applyChange(message, decision.change, { revision: exchange.revision });
  if (!changed.ok) return [`  but the change cannot be applied: ${changed.problem}`];
  const isResponse = message.method === undefined;
  const source = memberSource(changed.message, isResponse ? "result" : "params") ?? "";
  return [`  ${isResponse ? "result is" : "params are"} then: ${source}`];
}

type AuthZenConfig = NonNullable<NonNullable<RouteConfig["policy"]>["authzen"]>;

/** The request that an AuthZEN decision point would get about a message; nothing is sent. */
function describeAuthZenRequest(inspected: InspectedMessage, config: AuthZenConfig): readonly string[] {
  if (inspected.phase === "response") return ["allow: the decision about the request covers its response"];
  // Only a running gateway knows the mappings that the server declares.
  const plan = planEvaluation(inspected, mappingOptions(config, undefined));
  switch (plan.type) {
    case "pass":
      return ["allow: not sent to the decision point"];
    case "refuse": {
      const { kind, code, reason } = plan.refusal;
      return [`deny (${kind}, ${code}): not sent to the decision point`, `  the agent sees: ${reason}`];
    }
    case "evaluate": {
      const isCall = inspected.method === "tools/call";
      return [
        `${config.url} would be asked, with the ${plan.mapping} mapping:`,
        `  ${plan.body}`,
        ...(isCall && plan.mapping === "default" && config.declaredMappings === "use"
          ? ["  note: a mapping declared by the tool would take precedence; it is not known offline"]
          : []),
      ];
    }
  }
}
