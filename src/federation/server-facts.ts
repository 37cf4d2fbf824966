import { GatewayError } from "../errors.ts";
import { isObject } from "../lib/is-object.ts";
import { memberInteger, memberString, memberValue } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import type { Capabilities } from "../protocol/methods.ts";
import { newestModern, parseRevision, type Revision } from "../protocol/revisions.ts";
import { capabilityOf } from "./lists/catalogue-entries.ts";
import type { FederationOptions } from "./names/member-options.ts";

/** What a member said about itself in `initialize` or `server/discover`. */
export interface ServerFacts {
  readonly capabilities: Capabilities;
  readonly instructions: string | undefined;
  /** The revision that a handshake agreed on. */
  readonly revision?: Revision | undefined;
}

/** Reads the answer of a member to `initialize` or `server/discover`; throws when it is invalid. */
export function parseServerFacts(answer: Message | undefined): ServerFacts {
  if (answer?.kind === "error") {
    const problem = `the server refused the handshake with error ${memberInteger(answer, "error.code")}`;
    throw new GatewayError("upstream_invalid", problem, { cause: memberString(answer, "error.message") });
  }
  const capabilities = answer === undefined ? undefined : memberValue(answer, "result.capabilities");
  if (answer === undefined || !isObject(capabilities))
    throw new GatewayError("upstream_invalid", "the server's answer to the handshake is invalid");
  const agreed = parseRevision(memberString(answer, "result.protocolVersion") ?? "");
  const revision = agreed.ok ? agreed.revision : undefined;
  return { capabilities, instructions: memberString(answer, "result.instructions"), revision };
}

/** Capabilities whose lists are merged here, so that changes are always reported. */
const listed: ReadonlySet<string> = new Set(["tools", "prompts", "resources"]);

/**
 * The combined capabilities. Members not reached yet may have tools, so tools are always declared; the rest follows
 * with a change notification.
 */
function mergedCapabilities(all: Iterable<ServerFacts>): Capabilities {
  const merged: Record<string, unknown> = { tools: { listChanged: true } };
  for (const { capabilities } of all) {
    for (const [name, details] of Object.entries(capabilities)) {
      if (!isObject(details)) continue;
      merged[name] = {
        ...(isObject(merged[name]) ? mergedDetails(merged[name], details) : details),
        ...(listed.has(name) ? { listChanged: true } : {}),
      };
    }
  }
  return merged;
}

function mergedDetails(one: Readonly<Record<string, unknown>>, other: Readonly<Record<string, unknown>>) {
  const merged: Record<string, unknown> = { ...one };
  for (const [name, value] of Object.entries(other)) {
    const before = merged[name];
    merged[name] = isObject(before) && isObject(value) ? mergedDetails(before, value) : before === true ? true : value;
  }
  return merged;
}

function mergedInstructions(
  { instructions, members }: Pick<FederationOptions, "instructions" | "members">,
  facts: ReadonlyMap<string, ServerFacts>,
): string | undefined {
  if (typeof instructions !== "string") return facts.get(instructions.from)?.instructions;
  if (instructions !== "merged") return instructions === "" ? undefined : instructions;
  const given = members.flatMap(({ name, title }) => {
    const text = facts.get(name)?.instructions;
    return text === undefined ? [] : [{ title, text }];
  });
  const [only, another] = given;
  if (another === undefined) return only?.text;
  return given.map(({ title, text }) => `# ${title}\n\n${text}`).join("\n\n");
}

/** The JSON text of the federation's `serverInfo`. */
export function serverInfoOf({ serverInfo, route }: Pick<FederationOptions, "serverInfo" | "route">): string {
  return JSON.stringify(serverInfo ?? { name: route, version: "1" });
}

/** The JSON text of the result of `initialize`. */
export function formatInitializeResult(
  options: FederationOptions,
  revision: string,
  facts: ReadonlyMap<string, ServerFacts>,
): string {
  const instructions = mergedInstructions(options, facts);
  // Legacy clients cannot negotiate extensions.
  const { extensions: _extensions, ...capabilities } = mergedCapabilities(facts.values());
  return (
    `{"protocolVersion":${JSON.stringify(revision)},"capabilities":${JSON.stringify(capabilities)},` +
    `"serverInfo":${serverInfoOf(options)}` +
    `${instructions === undefined ? "" : `,"instructions":${JSON.stringify(instructions)}`}}`
  );
}

/** The JSON text of the result of `server/discover`: members are bridged one by one, so the revisions are our own. */
export function formatDiscoverResult(options: FederationOptions, facts: ReadonlyMap<string, ServerFacts>): string {
  const instructions = mergedInstructions(options, facts);
  return JSON.stringify({
    resultType: "complete",
    supportedVersions: [newestModern],
    capabilities: mergedCapabilities(facts.values()),
    ...(instructions === undefined ? {} : { instructions }),
    ttlMs: 0,
    cacheScope: "private",
    _meta: { "io.modelcontextprotocol/serverInfo": JSON.parse(serverInfoOf(options)) as unknown },
  });
}

/** Whether a member offers an extension. */
export function offersExtension({ capabilities }: ServerFacts, method: string): boolean {
  const prefix = method.slice(0, method.indexOf("/"));
  const extensions = capabilityOf(capabilities, "extensions") ?? {};
  return (
    capabilityOf(capabilities, prefix) !== undefined ||
    Object.keys(extensions).some((name) => name.slice(name.indexOf("/") + 1) === prefix)
  );
}
