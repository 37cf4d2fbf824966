import { GatewayError } from "../../errors.ts";
import type { Capabilities } from "../../protocol/methods.ts";
import { memberSource, memberString, memberType } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import {
  acceptServerRevision,
  newestLegacy,
  newestModern,
  type Revision,
  revisionNames,
} from "../../protocol/revisions.ts";
import { declaredCapabilities, parseCapabilities } from "./input-requests.ts";
import { defaultServerInfo, serverInfoMeta } from "./modern-result.ts";

/** What a legacy server said of itself in its handshake. */
export interface LegacyServerFacts {
  readonly revision: Revision;
  readonly capabilities: Capabilities;
  /** The text of a JSON object. */
  readonly serverInfo: string;
  /** The text of a JSON string. */
  readonly instructions: string | undefined;
}

/** What is shown to servers of clients that do not say who they are: the legacy handshake wants a name. */
const unnamedClient = '{"name":"unnamed client","version":"0"}';

const tasksExtension = "io.modelcontextprotocol/tasks";

/**
 * The params of an `initialize` for the client behind a modern request: who it says it is, and of what it can do the
 * three things that a legacy server may ask of it.
 */
export function formatInitializeParams(request: RequestMessage): string {
  const info = memberSource(request, "params._meta.io.modelcontextprotocol/clientInfo") ?? unnamedClient;
  const { roots, sampling, elicitation, experimental } = parseCapabilities(declaredCapabilities(request));
  // Changes of roots are not told in the modern era, so they cannot be promised.
  const capabilities = {
    ...(roots === undefined ? {} : { roots: {} }),
    ...(sampling === undefined ? {} : { sampling }),
    ...(elicitation === undefined ? {} : { elicitation }),
    ...(experimental === undefined ? {} : { experimental }),
  };
  return `{"protocolVersion":"${newestLegacy}","capabilities":${JSON.stringify(capabilities)},"clientInfo":${info}}`;
}

/** Reads the answer to `initialize`; throws when there is nothing to agree on. */
export function parseInitializeResult(answer: Message | undefined): LegacyServerFacts {
  if (answer?.kind !== "result")
    throw new GatewayError("upstream_unreachable", "the upstream refuses the handshake of 2025-11-25");
  const version = memberString(answer, "result.protocolVersion");
  const agreed = version === undefined ? undefined : acceptServerRevision(version, revisionNames);
  if (agreed?.ok !== true)
    throw new GatewayError("upstream_invalid", "the upstream answers the handshake with an unknown revision");
  const isNamed = memberType(answer, "result.serverInfo") === "object";
  const isInstructed = memberType(answer, "result.instructions") === "string";
  return {
    revision: agreed.revision,
    capabilities: parseCapabilities(memberSource(answer, "result.capabilities") ?? "{}"),
    serverInfo: (isNamed ? memberSource(answer, "result.serverInfo") : undefined) ?? defaultServerInfo,
    instructions: isInstructed ? memberSource(answer, "result.instructions") : undefined,
  };
}

/** The text of the result of `server/discover` for a server that has none: tasks cannot be carried between the eras. */
export function formatDiscoverResult({ capabilities, serverInfo, instructions }: LegacyServerFacts): string {
  const { tasks: _, extensions, ...served } = capabilities;
  const others = Object.entries(parseCapabilities(JSON.stringify(extensions ?? {}))).filter(
    ([name]) => name !== tasksExtension,
  );
  const shown = others.length === 0 ? served : { ...served, extensions: Object.fromEntries(others) };
  const members = [
    `"resultType":"complete"`,
    `"supportedVersions":["${newestModern}"]`,
    `"capabilities":${JSON.stringify(shown)}`,
    ...(instructions === undefined ? [] : [`"instructions":${instructions}`]),
    `"ttlMs":0`,
    `"cacheScope":"private"`,
    `"_meta":${serverInfoMeta(serverInfo)}`,
  ];
  return `{${members.join(",")}}`;
}
