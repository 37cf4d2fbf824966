import {
  configuredRoute,
  entryTargetOf,
  type Exchange,
  type Principal,
  type UpstreamTarget,
} from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberString, memberType } from "../../protocol/json/read.ts";
import { listMethods } from "../../protocol/lists.ts";
import type { Message } from "../../protocol/message.ts";
import { isNotification, methodFacts } from "../../protocol/methods.ts";
import { type CelMap, claimsValue, readCelValue } from "../cel/json-value.ts";
import { completionReference, type ListKind, targetMembers, targetName } from "../provider/provider.ts";
import type { EntityFields, EvaluationRequest } from "./mapping.ts";

/** Which claims identify user and agent, and the id of the MCP server. */
export interface IdentityOptions {
  readonly subjectClaim: string;
  readonly agentClaim: string;
  readonly resourceId?: string | undefined;
}

export interface DefaultMappingOptions extends IdentityOptions {
  readonly sendArguments: boolean;
  readonly maxArgumentBytes: number;
}

/** Requests without a target, which are about the server as a whole. */
const serverMethods: ReadonlySet<string> = new Set([
  "initialize",
  "server/discover",
  ...listMethods,
  "logging/setLevel",
  "subscriptions/listen",
  "tasks/list",
  // Requests of the server to its client; the binding does not cover them, and here the decision point decides.
  "roots/list",
  "sampling/createMessage",
  "elicitation/create",
]);

/**
 * Whether a message passes without evaluation (COAZ-MCP binding, "Pass-through Operations"). A request does not become
 * a notification by its name, nor by having no id. Only the server knows the meaning of notifications that MCP does not
 * define, so those do not pass.
 */
export function isPassThrough({ kind, method = "" }: Message): boolean {
  if (isNotification(kind, method)) return methodFacts(method) !== undefined;
  return kind === "request" && method === "ping";
}

/**
 * The evaluation request of a message by the default mappings (COAZ-MCP binding, "Default Mappings"); undefined for
 * methods that have none. Throws `invalid_params` if the message lacks a field that the mapping needs.
 */
export function defaultRequest(
  exchange: Exchange,
  message: Message,
  options: DefaultMappingOptions,
): EvaluationRequest | undefined {
  const method = message.method ?? "";
  const resource = resourceOf(exchange, message, method, options);
  if (resource === undefined) return undefined;
  const context = contextOf(exchange.principal, options);
  addContext(context, exchange, message, method, options);
  return {
    subject: subjectEntity(exchange.principal, options),
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

/** The evaluation request for list entries: each is evaluated like a call without arguments. */
export function listRequest(
  exchange: Exchange,
  kind: ListKind,
  names: readonly string[],
  options: IdentityOptions,
): EvaluationRequest {
  const { action, type } = entryTypes[kind];
  const context = contextOf(exchange.principal, options);
  return {
    subject: subjectEntity(exchange.principal, options),
    action: new Map([["name", action]]),
    ...(context.size === 0 ? {} : { context }),
    evaluations: names.map((name) => ({ resource: entity(type, name, exchange, entryTargetOf(exchange, kind, name)) })),
  };
}

function resourceOf(
  exchange: Exchange,
  message: Message,
  method: string,
  options: IdentityOptions,
): EntityFields | undefined {
  const target = methodFacts(method)?.target;
  if (target !== undefined) {
    const name = targetName(message, target);
    if (name === undefined) throw invalidParams(`\`${targetMembers[target]}\` is not a string`);
    return entity(target, name, exchange, exchange.tracking.upstream);
  }
  if (method === "completion/complete") {
    const reference = completionReference(message);
    if (reference === undefined) throw invalidParams("`params.ref` names neither a prompt nor a resource");
    return entity(reference.kind, reference.name, exchange, exchange.tracking.upstream);
  }
  if (!serverMethods.has(method)) return undefined;
  return new Map([
    ["type", "mcp_server"],
    ["id", serverIdOf(exchange, options)],
  ]);
}

/** Names are unique per server only, so the server goes along, and where several are behind it, which one and its own name. */
function entity(type: string, id: string, { route }: Exchange, upstream: UpstreamTarget | undefined): EntityFields {
  const properties = new Map([["server", configuredRoute(route)]]);
  if (upstream !== undefined) properties.set("upstream", upstream.member).set("name", upstream.name);
  return new Map<string, unknown>([
    ["type", type],
    ["id", id],
    ["properties", properties],
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
    if (version === undefined) throw invalidParams("`params.protocolVersion` is not a string");
    context.set("protocol_version", version);
  }
  if (method === "server/discover") context.set("protocol_version", revision);
  if (method === "logging/setLevel") {
    const level = memberString(message, "params.level");
    if (level === undefined) throw invalidParams("`params.level` is not a string");
    context.set("level", level);
  }
  const span = spanOf(message.outline, "params.arguments");
  if (!sendArguments || span === undefined || methodFacts(method)?.target === undefined) return;
  if (memberType(message, "params.arguments") !== "object") throw invalidParams("`params.arguments` is not an object");
  if (span.end - span.start > maxArgumentBytes)
    throw invalidParams(`the arguments are longer than ${maxArgumentBytes} bytes`);
  context.set("arguments", readCelValue(message.bytes, span));
}

function invalidParams(problem: string): GatewayError {
  return new GatewayError("invalid_params", problem);
}

/** The caller's token claims as CEL values. A caller without a token has its principal id as the subject claim. */
export function tokenClaims({ kind, id, claims }: Principal, { subjectClaim }: IdentityOptions): CelMap {
  const value = claimsValue(claims);
  return kind === "token" ? value : new Map([...value, [subjectClaim, id]]);
}

/**
 * The subject of a message (COAZ-MCP binding, "The Subject-Identity Claim"). A caller without a token has its own type,
 * so that no claim of a token can impersonate it.
 */
export function subjectEntity(principal: Principal, options: IdentityOptions): EntityFields {
  const { kind, claims, scopes } = principal;
  const properties = new Map<string, unknown>();
  if (typeof claims["iss"] === "string") properties.set("issuer", claims["iss"]);
  if (scopes.size > 0) properties.set("scopes", [...scopes]);
  const subject = new Map<string, unknown>([
    ["type", kind === "token" ? "identity" : kind],
    ["id", subjectIdOf(principal, options)],
  ]);
  if (properties.size > 0) subject.set("properties", properties);
  return subject;
}

/** The subject id, from the configured claim; throws if a token does not have it. */
export function subjectIdOf({ kind, id, claims }: Principal, { subjectClaim }: IdentityOptions): string {
  if (kind !== "token") return id;
  const value = claims[subjectClaim];
  if (typeof value === "string" && value !== "") return value;
  throw invalidParams(`the token has no claim \`${subjectClaim}\` that identifies the actor`);
}

/** The context of every evaluation request. */
export function contextOf({ claims }: Principal, { agentClaim }: IdentityOptions): Map<string, unknown> {
  const agent = claims[agentClaim];
  return new Map<string, unknown>(typeof agent === "string" ? [["agent", agent]] : []);
}

/**
 * The id of the MCP server: the configured one, or the token's only audience (COAZ-MCP binding, "Default Mappings"); the
 * route for callers without a token.
 */
function serverIdOf({ principal, route }: Exchange, { resourceId }: IdentityOptions): string {
  if (resourceId !== undefined) return resourceId;
  if (principal.kind !== "token") return configuredRoute(route);
  const { aud } = principal.claims;
  const [only, ...others] = [aud].flat();
  if (typeof only === "string" && only !== "" && others.length === 0) return only;
  throw invalidParams("the token does not have exactly one audience to name the server");
}
