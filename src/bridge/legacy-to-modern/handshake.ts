import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { type Capabilities, tasksExtension } from "../../protocol/methods.ts";
import { memberInteger, memberSource, memberString, memberType, memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import {
  negotiateRevision,
  newestCommonRevision,
  type Revision,
  revisionNames,
  revisions,
} from "../../protocol/revisions.ts";

/** What a client declared in `initialize`, and the revision agreed on. */
export interface ClientFacts {
  readonly revision: Revision;
  /** In the form that modern servers know. */
  readonly capabilities: Capabilities;
  /** The JSON text of `clientInfo`. */
  readonly clientInfo: string | undefined;
}

/** Reads an `initialize` request and negotiates a legacy revision; throws when its params are invalid. */
export function parseInitializeRequest(message: RequestMessage, supported: readonly Revision[]): ClientFacts {
  const requested = memberString(message, "params.protocolVersion");
  if (requested === undefined) throw new GatewayError("invalid_params", "initialize needs params.protocolVersion");
  const outcome = negotiateRevision(requested, supported);
  if (!outcome.ok) {
    throw new GatewayError("invalid_params", `unsupported protocol version: ${requested}`, {
      details: { supported: outcome.supported, requested },
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
 * The capabilities of a legacy client in their modern form: only what its revision defines, without tasks and
 * `roots.listChanged`, which have no modern form.
 */
function toModernCapabilities(declared: unknown, revision: Revision): Capabilities {
  if (!isObject(declared)) return {};
  const { elicitation, samplingTools } = revisions[revision];
  const result: Record<string, unknown> = {};
  for (const [name, details] of Object.entries(declared)) {
    if (!isObject(details)) continue;
    if (name === "tasks" || (name === "elicitation" && elicitation === "none")) continue;
    if (name === "roots") result[name] = omit(details, "listChanged");
    else if (name === "elicitation" && elicitation === "form") result[name] = {};
    else if (name === "sampling" && !samplingTools) result[name] = {};
    else if (name === "extensions") result[name] = omit(details, tasksExtension);
    else result[name] = details;
  }
  return result;
}

/** What a modern server said in `server/discover`. */
export interface ModernServerFacts {
  /** Those that a legacy client can use. */
  readonly capabilities: Capabilities;
  /** The JSON text of `serverInfo`. */
  readonly serverInfo: string | undefined;
  /** The JSON string of `instructions`. */
  readonly instructions: string | undefined;
}

/** Reads the answer to `server/discover`; throws when it is invalid or names no supported revision. */
export function parseDiscoverResult(answer: Message | undefined): ModernServerFacts {
  if (answer?.kind === "error") {
    const code = memberInteger(answer, "error.code");
    throw new GatewayError("upstream_invalid", `the upstream answered server/discover with error ${code}`);
  }
  const capabilities = answer === undefined ? undefined : memberValue(answer, "result.capabilities");
  if (answer === undefined || !isObject(capabilities)) {
    throw new GatewayError("upstream_invalid", "the upstream's answer to server/discover is invalid");
  }
  const versions: unknown = memberValue(answer, "result.supportedVersions");
  const theirs = Array.isArray(versions) ? versions.filter((version) => typeof version === "string") : [];
  if (newestCommonRevision(theirs, revisionNames) === undefined) {
    throw new GatewayError("upstream_invalid", "the upstream supports no known modern revision");
  }
  const info = "result._meta.io.modelcontextprotocol/serverInfo";
  const isInstructed = memberType(answer, "result.instructions") === "string";
  return {
    // Legacy clients cannot negotiate extensions, and their tasks differ.
    capabilities: omit(omit(capabilities, "extensions"), "tasks"),
    serverInfo: memberType(answer, info) === "object" ? memberSource(answer, info) : undefined,
    instructions: isInstructed ? memberSource(answer, "result.instructions") : undefined,
  };
}

/** The JSON text of the `initialize` result; `name` stands for a server that did not name itself. */
export function bridgedInitializeResult(client: ClientFacts, server: ModernServerFacts, name: string): string {
  const info = server.serverInfo ?? JSON.stringify({ name, version: "unknown" });
  const instructions = server.instructions === undefined ? "" : `,"instructions":${server.instructions}`;
  return (
    `{"protocolVersion":${JSON.stringify(client.revision)},` +
    `"capabilities":${JSON.stringify(server.capabilities)},"serverInfo":${info}${instructions}}`
  );
}

/** Whether a server has a capability, such as `resources` with `subscribe`. */
export function hasCapability({ capabilities }: ModernServerFacts, name: string, detail?: string): boolean {
  const details = Object.hasOwn(capabilities, name) ? capabilities[name] : undefined;
  if (!isObject(details)) return false;
  return detail === undefined || details[detail] === true;
}

function omit(record: Capabilities, name: string): Capabilities {
  return Object.fromEntries(Object.entries(record).filter(([key]) => key !== name));
}
