import { GatewayError } from "../../errors.ts";
import type { Capabilities } from "../../protocol/methods.ts";
import { memberInteger, memberSource, memberString, memberType, memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import {
  negotiateRevision,
  newestCommonRevision,
  type Revision,
  revisionNames,
  revisions,
} from "../../protocol/revisions.ts";

/** What a client said in its handshake, and the revision that it led to. */
export interface ClientFacts {
  readonly revision: Revision;
  /** What it can be asked by a modern server. */
  readonly capabilities: Capabilities;
  /** The text of a JSON object. */
  readonly clientInfo: string | undefined;
}

const tasksExtension = "io.modelcontextprotocol/tasks";

/**
 * Reads an `initialize` request and agrees on a revision; a modern one is never agreed on this way. Throws where the
 * parameters are not those of a handshake.
 */
export function parseInitializeRequest(message: RequestMessage, supported: readonly Revision[]): ClientFacts {
  const wished = memberString(message, "params.protocolVersion");
  if (wished === undefined) {
    throw new GatewayError("invalid_params", "initialize needs params.protocolVersion");
  }
  const outcome = negotiateRevision(wished, supported);
  if (!outcome.ok) {
    throw new GatewayError("invalid_params", `unsupported protocol version (not served: ${wished})`, {
      details: { supported: outcome.supported, requested: wished },
    });
  }
  const { revision } = outcome;
  const isNamed = memberType(message, "params.clientInfo") === "object";
  return {
    revision,
    capabilities: toModernCapabilities(memberValue(message, "params.capabilities"), revision),
    clientInfo: isNamed ? memberSource(message, "params.clientInfo") : undefined,
  };
}

/**
 * The capabilities of a legacy client as a modern server may rely on them: only what its revision knows, without tasks
 * and without notice of changed roots, which have no modern form.
 */
function toModernCapabilities(declared: unknown, revision: Revision): Capabilities {
  if (!isRecord(declared)) return {};
  const { elicitation, samplingTools } = revisions[revision];
  const result: Record<string, unknown> = {};
  for (const [name, details] of Object.entries(declared)) {
    if (!isRecord(details)) continue;
    if (name === "tasks" || (name === "elicitation" && elicitation === "none")) continue;
    if (name === "roots") result[name] = omit(details, "listChanged");
    else if (name === "elicitation" && elicitation === "form") result[name] = {};
    else if (name === "sampling" && !samplingTools) result[name] = {};
    else if (name === "extensions") result[name] = omit(details, tasksExtension);
    else result[name] = details;
  }
  return result;
}

/** What a modern server said of itself. */
export interface ModernServerFacts {
  /** What may be offered to a legacy client. */
  readonly capabilities: Capabilities;
  /** The text of a JSON object, where the server named itself. */
  readonly serverInfo: string | undefined;
  /** The text of a JSON string. */
  readonly instructions: string | undefined;
}

/** Reads the answer to `server/discover`; throws where it is none, or names no revision that we speak. */
export function parseDiscoverResult(answer: Message | undefined): ModernServerFacts {
  if (answer?.kind === "error") {
    const code = memberInteger(answer, "error.code");
    throw new GatewayError("upstream_invalid", `the upstream refused server/discover with error ${code}`);
  }
  const capabilities = answer === undefined ? undefined : memberValue(answer, "result.capabilities");
  if (answer === undefined || !isRecord(capabilities)) {
    throw new GatewayError("upstream_invalid", "the upstream's answer to server/discover is no discovery");
  }
  const versions: unknown = memberValue(answer, "result.supportedVersions");
  const theirs = Array.isArray(versions) ? versions.filter((version) => typeof version === "string") : [];
  if (newestCommonRevision(theirs, revisionNames) === undefined) {
    throw new GatewayError("upstream_invalid", "the upstream serves no modern revision that is known here");
  }
  const info = "result._meta.io.modelcontextprotocol/serverInfo";
  const isInstructed = memberType(answer, "result.instructions") === "string";
  return {
    // Extensions and tasks were never agreed on with a legacy client.
    capabilities: omit(omit(capabilities, "extensions"), "tasks"),
    serverInfo: memberType(answer, info) === "object" ? memberSource(answer, info) : undefined,
    instructions: isInstructed ? memberSource(answer, "result.instructions") : undefined,
  };
}

/** The text of the result of `initialize`. A server that does not name itself goes by the name given. */
export function formatInitializeResult(client: ClientFacts, server: ModernServerFacts, name: string): string {
  const info = server.serverInfo ?? JSON.stringify({ name, version: "unknown" });
  const instructions = server.instructions === undefined ? "" : `,"instructions":${server.instructions}`;
  return (
    `{"protocolVersion":${JSON.stringify(client.revision)},` +
    `"capabilities":${JSON.stringify(server.capabilities)},"serverInfo":${info}${instructions}}`
  );
}

/** Whether a server offers something, such as `resources` with `subscribe`. */
export function hasCapability({ capabilities }: ModernServerFacts, name: string, detail?: string): boolean {
  const details = Object.hasOwn(capabilities, name) ? capabilities[name] : undefined;
  if (!isRecord(details)) return false;
  return detail === undefined || details[detail] === true;
}

function omit(record: Capabilities, name: string): Capabilities {
  return Object.fromEntries(Object.entries(record).filter(([key]) => key !== name));
}

function isRecord(value: unknown): value is Capabilities {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
