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

/** What a legacy server declared in `initialize`. */
export interface LegacyServerFacts {
  readonly revision: Revision;
  readonly capabilities: Capabilities;
  /** The JSON text of `serverInfo`. */
  readonly serverInfo: string;
  /** The JSON string of `instructions`. */
  readonly instructions: string | undefined;
}

/** Stands for a client that did not name itself: the legacy handshake requires a name. */
const unnamedClient = '{"name":"unnamed client","version":"0"}';

const tasksExtension = "io.modelcontextprotocol/tasks";

/** The JSON text of `initialize` params for the client behind a modern request. */
export function formatInitializeParams(request: RequestMessage): string {
  const info = memberSource(request, "params._meta.io.modelcontextprotocol/clientInfo") ?? unnamedClient;
  const { roots, sampling, elicitation, experimental } = parseCapabilities(declaredCapabilities(request));
  // Modern clients do not report changes of their roots.
  const capabilities = {
    ...(roots === undefined ? {} : { roots: {} }),
    ...(sampling === undefined ? {} : { sampling }),
    ...(elicitation === undefined ? {} : { elicitation }),
    ...(experimental === undefined ? {} : { experimental }),
  };
  return `{"protocolVersion":"${newestLegacy}","capabilities":${JSON.stringify(capabilities)},"clientInfo":${info}}`;
}

/** Reads the answer to `initialize`; throws when it is an error or names an unknown revision. */
export function parseInitializeResult(answer: Message | undefined): LegacyServerFacts {
  if (answer?.kind !== "result") throw new GatewayError("upstream_unreachable", "the upstream rejected initialize");
  const version = memberString(answer, "result.protocolVersion");
  const agreed = version === undefined ? undefined : acceptServerRevision(version, revisionNames);
  if (agreed?.ok !== true)
    throw new GatewayError("upstream_invalid", "the upstream answered initialize with an unknown revision");
  const isNamed = memberType(answer, "result.serverInfo") === "object";
  const isInstructed = memberType(answer, "result.instructions") === "string";
  return {
    revision: agreed.revision,
    capabilities: parseCapabilities(memberSource(answer, "result.capabilities") ?? "{}"),
    serverInfo: (isNamed ? memberSource(answer, "result.serverInfo") : undefined) ?? defaultServerInfo,
    instructions: isInstructed ? memberSource(answer, "result.instructions") : undefined,
  };
}

/** The JSON text of a `server/discover` result. Tasks are left out: their legacy and modern forms differ. */
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
