import { replaceMember } from "../../protocol/json/splice.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import {
  isModernRevision,
  negotiateRevision,
  newestModern,
  revisionNames,
} from "../../protocol/revisions.ts";
import { parseExactJson } from "./canonical.ts";
import { isObject } from "./match-key.ts";
import type { RecordedCall } from "./recorded-call.ts";
import { recordedResult } from "./served-message.ts";

/** What a recorded server said of itself, for clients of either era. */
export interface Handshake {
  /** The result of `initialize` or `server/discover`; undefined where a client of that era cannot be served. */
  answer(request: Message): Message | undefined;
}

type JsonMembers = Readonly<Record<string, unknown>>;

const serverInfoKey = "io.modelcontextprotocol/serverInfo";

/** The methods that a server with a capability answers. */
const capabilityByPrefix: Readonly<Record<string, string>> = {
  tools: "tools",
  prompts: "prompts",
  resources: "resources",
  completion: "completions",
  logging: "logging",
};

/** Makes the handshake of a recording: as it was recorded, the revision agreed on anew, or put together from its calls. */
export function createHandshake(calls: readonly RecordedCall[]): Handshake {
  const initialized = resultOf(calls, "initialize");
  const discovered = resultOf(calls, "server/discover");
  const revisions = new Set(
    calls.flatMap(({ context }) => (context === undefined ? [] : [context.revision])),
  );
  const hasModern = discovered !== undefined || [...revisions].some(isModernRevision);
  const capabilities = objectIn(initialized ?? discovered, "capabilities") ?? inferCapabilities(calls);
  const serverInfo = objectIn(initialized, "serverInfo") ??
    objectIn(objectIn(discovered, "_meta"), serverInfoKey) ?? { name: "headgate-replay", version: "1" };
  const instructions = (initialized ?? discovered)?.["instructions"];
  const about = typeof instructions === "string" ? { instructions } : {};

  function initialize(request: Message): Message | undefined {
    const wanted = memberString(request, "params.protocolVersion") ?? "";
    const agreed = negotiateRevision(wanted, revisionNames);
    if (!agreed.ok) return undefined;
    const recorded = calls.find(({ method, answer }) => method === "initialize" && answer !== undefined);
    const own = recorded?.answer === undefined ? undefined : recordedResult(recorded.answer);
    const bytes = own && replaceMember(own, "result.protocolVersion", JSON.stringify(agreed.revision));
    if (bytes !== undefined) return recordedResult(bytes.toString());
    const result = { protocolVersion: agreed.revision, capabilities, serverInfo, ...about };
    return recordedResult(JSON.stringify({ jsonrpc: "2.0", id: 0, result }));
  }

  function discover(): Message | undefined {
    // A legacy server does not know the method, and a client that asks both ways goes on with `initialize`.
    if (!hasModern) return undefined;
    if (discovered !== undefined) {
      const recorded = calls.find(
        ({ method, answer }) => method === "server/discover" && answer !== undefined,
      );
      if (recorded?.answer !== undefined) return recordedResult(recorded.answer);
    }
    const result = {
      resultType: "complete",
      supportedVersions: [newestModern],
      capabilities,
      ttlMs: 0,
      cacheScope: "private",
      _meta: { [serverInfoKey]: serverInfo },
      ...about,
    };
    return recordedResult(JSON.stringify({ jsonrpc: "2.0", id: 0, result }));
  }

  return { answer: (request) => (request.method === "initialize" ? initialize(request) : discover()) };
}

function resultOf(calls: readonly RecordedCall[], method: string): JsonMembers | undefined {
  for (const call of calls) {
    if (call.method !== method || call.answer === undefined) continue;
    const result = objectIn(parseExactJson(call.answer), "result");
    if (result !== undefined) return result;
  }
  return undefined;
}

function objectIn(value: unknown, name: string): JsonMembers | undefined {
  const member = isObject(value) ? value[name] : undefined;
  return isObject(member) ? member : undefined;
}

function inferCapabilities(calls: readonly RecordedCall[]): JsonMembers {
  const seen = calls.flatMap(({ method }) => capabilityByPrefix[method.split("/")[0] ?? ""] ?? []);
  return Object.fromEntries(seen.map((name) => [name, {}]));
}
