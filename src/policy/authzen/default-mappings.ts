import { GatewayError } from "../../errors.ts";
import type { Exchange, Principal } from "../../core/exchange.ts";
import { memberString, memberType, memberValue } from "../../protocol/json/read.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { type CelValue, readCelValue, toCelValue } from "../cel/json-value.ts";
import type { ListKind } from "../provider/provider.ts";
import type { EntityFields, EvaluationRequest } from "./mapping.ts";

/** What default mappings are made with. */
export interface DefaultMappingOptions extends IdentityOptions {
  readonly sendArguments: boolean;
  readonly maxArgumentBytes: number;
}

/** Requests about the server as a whole, beside those that `methodFacts` gives a target. */
const aboutServer: ReadonlySet<string> = new Set([
  "initialize",
  "server/discover",
  "tools/list",
  "resources/list",
  "resources/templates/list",
  "prompts/list",
  "logging/setLevel",
  "subscriptions/listen",
  "tasks/list",
  // What a server asks of its client; the binding leaves it open, and here the decision point decides about it.
  "roots/list",
  "sampling/createMessage",
  "elicitation/create",
]);

/** Whether nobody is asked about a method (COAZ-MCP binding, "Pass-through Operations"). */
export function isPassThroughMethod(method: string): boolean {
  return method === "ping" || method.startsWith("notifications/");
}

/**
 * The request for a message by the default mappings (COAZ-MCP binding, "Default Mappings"); undefined for methods that
 * have none, which are to be refused. Throws `invalid_params` where the message does not say what it is about.
 */
export function defaultRequest(
  exchange: Exchange,
  message: Message,
  settings: DefaultMappingOptions,
): EvaluationRequest | undefined {
  const method = message.method ?? "";
  const resource = resourceOf(exchange, message, method, settings);
  if (resource === undefined) return undefined;
  const context = contextOf(exchange.principal, settings);
  addContext(context, exchange, message, method, settings);
  return {
    subject: subjectOf(exchange.principal, settings),
    action: new Map([["name", method]]),
    resource,
    ...(context.size === 0 ? {} : { context }),
  };
}

const entryTypes: Readonly<Record<ListKind, { readonly action: string; readonly type: string }>> = {
  tool: { action: "tools/call", type: "tool" },
  prompt: { action: "prompts/get", type: "prompt" },
  resource: { action: "resources/read", type: "resource" },
  "resource-template": { action: "resources/read", type: "resource_template" },
};

/** The request about the entries of a list: whether each may be used, as a call without arguments would ask. */
export function listRequest(
  exchange: Exchange,
  kind: ListKind,
  names: readonly string[],
  settings: IdentityOptions,
): EvaluationRequest {
  const { action, type } = entryTypes[kind];
  const context = contextOf(exchange.principal, settings);
  return {
    subject: subjectOf(exchange.principal, settings),
    action: new Map([["name", action]]),
    ...(context.size === 0 ? {} : { context }),
    evaluations: names.map((name) => ({ resource: resourceItem(type, name, exchange) })),
  };
}

function resourceOf(
  exchange: Exchange,
  message: Message,
  method: string,
  settings: IdentityOptions,
): EntityFields | undefined {
  const target = methodFacts(method)?.target;
  if (target !== undefined) {
    const name = memberString(message, nameMembers[target]);
    if (name === undefined) throw invalidParams(`\`${nameMembers[target]}\` is no text`);
    return resourceItem(target, name, exchange);
  }
  if (method === "completion/complete") return completionResource(exchange, message);
  if (!aboutServer.has(method)) return undefined;
  return new Map([
    ["type", "mcp_server"],
    ["id", serverIdOf(exchange, settings)],
  ]);
}

const nameMembers = {
  tool: "params.name",
  prompt: "params.name",
  resource: "params.uri",
  task: "params.taskId",
} as const;

function completionResource(exchange: Exchange, message: Message): EntityFields {
  const value: unknown = memberValue(message, "params.ref");
  const { type, name, uri } = Object(value) as Readonly<Record<string, unknown>>;
  if (type === "ref/prompt" && typeof name === "string") return resourceItem("prompt", name, exchange);
  if (type === "ref/resource" && typeof uri === "string") return resourceItem("resource", uri, exchange);
  throw invalidParams("`params.ref` names neither a prompt nor a resource");
}

/** Names are those of one server, and a decision point may know several. */
function resourceItem(type: string, id: string, { route }: Exchange): EntityFields {
  return new Map<string, unknown>([
    ["type", type],
    ["id", id],
    ["properties", new Map([["server", route]])],
  ]);
}

function addContext(
  context: Map<string, unknown>,
  { revision }: Exchange,
  message: Message,
  method: string,
  { sendArguments, maxArgumentBytes }: DefaultMappingOptions,
): void {
  if (method === "initialize") {
    const version = memberString(message, "params.protocolVersion");
    if (version === undefined) throw invalidParams("`params.protocolVersion` is no text");
    context.set("protocol_version", version);
  }
  if (method === "server/discover") context.set("protocol_version", revision);
  if (method === "logging/setLevel") {
    const level = memberString(message, "params.level");
    if (level === undefined) throw invalidParams("`params.level` is no text");
    context.set("level", level);
  }
  const span = spanOf(message.outline, "params.arguments");
  if (!sendArguments || span === undefined || methodFacts(method)?.target === undefined) return;
  if (memberType(message, "params.arguments") !== "object") throw invalidParams("`params.arguments` is no object");
  if (span.end - span.start > maxArgumentBytes)
    throw invalidParams(`its arguments are longer than ${maxArgumentBytes} bytes`);
  context.set("arguments", readCelValue(message.bytes, span));
}

function invalidParams(problem: string): GatewayError {
  return new GatewayError("invalid_params", problem);
}

/** Which claims say who acts, and what the server is called. */
export interface IdentityOptions {
  readonly subjectClaim: string;
  readonly agentClaim: string;
  readonly resourceId?: string | undefined;
}

type Claims = ReadonlyMap<string, CelValue>;

const claimsCache = new WeakMap<object, Claims>();

/**
 * The claims of the caller's token as CEL sees them. Callers without a token have what their credentials say, and the
 * gateway's name for them where a token would say who acts.
 */
export function tokenClaims({ kind, id, claims }: Principal, { subjectClaim }: IdentityOptions): Claims {
  let value = claimsCache.get(claims);
  if (value === undefined) {
    // The claims are an object, and that is a map in CEL.
    value = toCelValue(claims) as Claims;
    claimsCache.set(claims, value);
  }
  return kind === "token" ? value : new Map([...value, [subjectClaim, id]]);
}

/**
 * On whose behalf a message comes (COAZ-MCP binding, "The Subject-Identity Claim"). Callers without a token have their
 * own type and the gateway's name for them, so that nobody's claim can be mistaken for one of them.
 */
export function subjectOf({ kind, id, claims, scopes }: Principal, settings: IdentityOptions): EntityFields {
  const properties = new Map<string, unknown>();
  if (typeof claims["iss"] === "string") properties.set("issuer", claims["iss"]);
  if (scopes.size > 0) properties.set("scopes", [...scopes]);
  const own = subjectIdOf({ kind, id, claims }, settings);
  const subject = new Map<string, unknown>([
    ["type", kind === "token" ? "identity" : kind],
    ["id", own],
  ]);
  if (properties.size > 0) subject.set("properties", properties);
  return subject;
}

/** The identifier of the subject, from the claim that was agreed on; throws where a token has none. */
export function subjectIdOf(
  { kind, id, claims }: Pick<Principal, "kind" | "id" | "claims">,
  { subjectClaim }: IdentityOptions,
): string {
  if (kind !== "token") return id;
  const value = claims[subjectClaim];
  if (typeof value === "string" && value !== "") return value;
  throw new GatewayError("invalid_params", `the token has no claim \`${subjectClaim}\` that says who acts`);
}

/** What is said of the circumstances in every question. */
export function contextOf({ claims }: Principal, { agentClaim }: IdentityOptions): Map<string, unknown> {
  const agent = claims[agentClaim];
  return new Map<string, unknown>(typeof agent === "string" ? [["agent", agent]] : []);
}

/**
 * The name of the server as a resource: the configured one, or the only audience of the token (COAZ-MCP binding,
 * "Default Mappings"); for callers without a token that of the route.
 */
function serverIdOf({ principal, route }: Exchange, { resourceId }: IdentityOptions): string {
  if (resourceId !== undefined) return resourceId;
  if (principal.kind !== "token") return route;
  const { aud } = principal.claims;
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  const [only, ...others] = audiences;
  if (typeof only === "string" && only !== "" && others.length === 0) return only;
  throw new GatewayError("invalid_params", "the token does not have exactly one audience that could name the server");
}
