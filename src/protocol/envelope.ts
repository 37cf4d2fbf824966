import { type NotificationMessage, readId, type RequestMessage } from "./message.ts";
import { type MemberName, spanOf } from "./json/outline.ts";
import { memberSource, memberString, memberType } from "./json/read.ts";
import { isModernRevision } from "./revisions.ts";

/** What a modern client can send: a request or a notification, never a response. */
export type MethodMessage = RequestMessage | NotificationMessage;

/** Severities of log messages, mildest first (RFC 5424). */
export const loggingLevels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;
/** One of the severities. */
export type LoggingLevel = (typeof loggingLevels)[number];

/** What a modern request says of itself in `params._meta` (MCP 2026-07-28, Lifecycle). */
export interface ModernEnvelope {
  /** The revision as the body names it; whether we know it is another question. */
  readonly revision: string;
  /** The declared capabilities as they stand in the body: the text of a JSON object. */
  readonly clientCapabilities: string;
  /** Self-reported, for display and logs only; the text of a JSON object. */
  readonly clientInfo: string | undefined;
  /** Absent: the request wants no log messages. */
  readonly logLevel: LoggingLevel | undefined;
}

/** A key of the envelope that is missing or has the wrong shape. */
export interface EnvelopeProblem {
  readonly key: string;
  readonly problem: "missing" | "malformed";
  readonly expected: string;
}

/** The envelope of a request, or everything that is wrong with it. */
export type ParsedEnvelope =
  | { readonly ok: true; readonly envelope: ModernEnvelope }
  | { readonly ok: false; readonly faults: readonly [EnvelopeProblem, ...EnvelopeProblem[]] };

const prefix = "io.modelcontextprotocol/";
const versionMember = "params._meta.io.modelcontextprotocol/protocolVersion";
const capabilitiesMember = "params._meta.io.modelcontextprotocol/clientCapabilities";
const infoMember = "params._meta.io.modelcontextprotocol/clientInfo";
const levelMember = "params._meta.io.modelcontextprotocol/logLevel";

/** Whether a message claims to be modern: its `_meta` has the version key, whatever stands there. */
export function claimsModern(message: MethodMessage): boolean {
  return spanOf(message.outline, versionMember) !== undefined;
}

/** Whether a message carries a complete envelope that names a modern revision, known to us or not. */
export function isModernEnvelope(message: MethodMessage): boolean {
  if (!claimsModern(message)) return false;
  const reading = parseEnvelope(message);
  return reading.ok && isModernRevision(reading.envelope.revision);
}

/** Reads the envelope of a modern request, or says which of its keys are missing or malformed. */
export function parseEnvelope(message: MethodMessage): ParsedEnvelope {
  const faults = [
    fault(message, versionMember, "string", true),
    fault(message, capabilitiesMember, "object", true),
    fault(message, infoMember, "object", false),
    levelFault(message),
    tokenFault(message),
  ].filter((found) => found !== undefined);
  const [first, ...rest] = faults;
  if (first !== undefined) return { ok: false, faults: [first, ...rest] };
  return {
    ok: true,
    envelope: {
      revision: memberString(message, versionMember) ?? "",
      clientCapabilities: memberSource(message, capabilitiesMember) ?? "{}",
      clientInfo: memberSource(message, infoMember),
      logLevel: levelOf(message),
    },
  };
}

function fault(
  message: MethodMessage,
  member: MemberName,
  expected: "string" | "object",
  isRequired: boolean,
): EnvelopeProblem | undefined {
  const type = memberType(message, member);
  if (type === expected || (type === undefined && !isRequired)) return undefined;
  return { key: keyOf(member), problem: type === undefined ? "missing" : "malformed", expected };
}

function levelFault(message: MethodMessage): EnvelopeProblem | undefined {
  if (memberType(message, levelMember) === undefined || levelOf(message) !== undefined) return undefined;
  return { key: keyOf(levelMember), problem: "malformed", expected: loggingLevels.join(", ") };
}

function tokenFault(message: MethodMessage): EnvelopeProblem | undefined {
  const span = spanOf(message.outline, "params._meta.progressToken");
  if (span === undefined) return undefined;
  const reading = readId(message.bytes, span.start, span.end);
  if (reading.ok && !reading.fractional) return undefined;
  return { key: "progressToken", problem: "malformed", expected: "string or integer" };
}

function levelOf(message: MethodMessage): LoggingLevel | undefined {
  const text = memberString(message, levelMember);
  return loggingLevels.find((level) => level === text);
}

function keyOf(member: MemberName): string {
  return member.slice(member.indexOf(prefix));
}
