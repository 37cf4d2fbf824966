import { type MethodMessage, readId } from "./message.ts";
import { type MemberName, spanOf } from "./json/outline.ts";
import { memberSource, memberString, memberType } from "./json/read.ts";
import { isModernRevision } from "./revisions.ts";

/** The logging levels of MCP, least severe first (RFC 5424). */
export const loggingLevels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;
/** One of the logging levels. */
export type LoggingLevel = (typeof loggingLevels)[number];

/** The metadata that every modern request carries in `params._meta` (MCP 2026-07-28, Lifecycle). */
export interface ModernEnvelope {
  /** The revision as the body names it, known to us or not. */
  readonly revision: string;
  /** The declared capabilities, as JSON text of an object. */
  readonly clientCapabilities: string;
  /** Self-reported, for display and logs only; JSON text of an object. */
  readonly clientInfo: string | undefined;
  /** If absent, the client wants no log messages for this request. */
  readonly logLevel: LoggingLevel | undefined;
}

/** A key of the envelope that is missing or has the wrong type. */
export interface EnvelopeProblem {
  readonly key: string;
  readonly problem: "missing" | "malformed";
  readonly expected: string;
}

/** The envelope of a request, or all its problems. */
export type ParsedEnvelope =
  | { readonly ok: true; readonly envelope: ModernEnvelope }
  | { readonly ok: false; readonly problems: readonly [EnvelopeProblem, ...EnvelopeProblem[]] };

const prefix = "io.modelcontextprotocol/";
const versionMember = "params._meta.io.modelcontextprotocol/protocolVersion";
const capabilitiesMember = "params._meta.io.modelcontextprotocol/clientCapabilities";
const infoMember = "params._meta.io.modelcontextprotocol/clientInfo";
const levelMember = "params._meta.io.modelcontextprotocol/logLevel";

/** Whether a message claims to be modern: its `_meta` has the version key, with any value. */
export function claimsModern(message: MethodMessage): boolean {
  return spanOf(message.outline, versionMember) !== undefined;
}

/** Whether a message has a complete envelope that names a modern revision, known to us or not. */
export function isModernEnvelope(message: MethodMessage): boolean {
  if (!claimsModern(message)) return false;
  const parsed = parseEnvelope(message);
  return parsed.ok && isModernRevision(parsed.envelope.revision);
}

/** Reads the envelope of a modern request, or lists the keys that are missing or malformed. */
export function parseEnvelope(message: MethodMessage): ParsedEnvelope {
  const [first, ...rest] = [
    checkType(message, versionMember, "string", true),
    checkType(message, capabilitiesMember, "object", true),
    checkType(message, infoMember, "object", false),
    checkLevel(message),
    checkToken(message),
  ].filter((problem) => problem !== undefined);
  if (first !== undefined) return { ok: false, problems: [first, ...rest] };
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

function checkType(
  message: MethodMessage,
  member: MemberName,
  expected: "string" | "object",
  isRequired: boolean,
): EnvelopeProblem | undefined {
  const type = memberType(message, member);
  if (type === expected || (type === undefined && !isRequired)) return undefined;
  return { key: keyOf(member), problem: type === undefined ? "missing" : "malformed", expected };
}

function checkLevel(message: MethodMessage): EnvelopeProblem | undefined {
  if (memberType(message, levelMember) === undefined || levelOf(message) !== undefined) return undefined;
  return { key: keyOf(levelMember), problem: "malformed", expected: loggingLevels.join(", ") };
}

function checkToken(message: MethodMessage): EnvelopeProblem | undefined {
  const span = spanOf(message.outline, "params._meta.progressToken");
  if (span === undefined) return undefined;
  const parsed = readId(message.bytes, span.start, span.end);
  if (parsed.ok && !parsed.fractional) return undefined;
  return { key: "progressToken", problem: "malformed", expected: "string or integer" };
}

function levelOf(message: MethodMessage): LoggingLevel | undefined {
  const text = memberString(message, levelMember);
  return loggingLevels.find((level) => level === text);
}

function keyOf(member: MemberName): string {
  return member.slice(member.indexOf(prefix));
}
