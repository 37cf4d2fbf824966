import { type Capabilities, methodFacts, methodStatus, missingCapabilities } from "../methods.ts";
import { claimsModern, type EnvelopeProblem, type ModernEnvelope, parseEnvelope } from "../envelope.ts";
import type { HeaderParameter } from "./header-parameters.ts";
import { memberString } from "../json/read.ts";
import { errorResponse, type ErrorResponse, type MethodMessage, type RequestMessage } from "../message.ts";
import {
  checkNameHeader,
  checkParameterHeaders,
  type HeaderLookup,
  type HeaderMismatch,
  methodHeaderOf,
  revisionHeaderOf,
  toHeaderMismatch,
} from "./mirrored-headers.ts";
import { parseRevision, type Revision, revisions } from "../revisions.ts";

/** What the checks need to know besides the POST itself. */
export interface ModernCheckOptions {
  /** The revisions that `server/discover` lists, newest first; only the modern ones apply here. */
  readonly supported: readonly Revision[];
  /** The client capabilities that a request needs, if that is known before it runs. */
  readonly requiredCapabilities?: (message: RequestMessage) => Capabilities | undefined;
  /** The header parameters of a tool; undefined if its schema is unknown, and then none are checked. */
  readonly headerParameters?: (tool: string) => readonly HeaderParameter[] | undefined;
  /** Whether a method is served; defaults to whether the revision has it. */
  readonly isServed?: (method: string, revision: Revision) => boolean;
}

/** A modern POST: its message and its headers. */
export interface ModernPost {
  readonly message: MethodMessage;
  readonly header: HeaderLookup;
}

/** The revision and envelope of a valid modern POST, or the check that failed and the error response. */
export type ModernCheckResult =
  | {
      readonly ok: true;
      readonly revision: Revision;
      /** Undefined only for a notification, which needs none. */
      readonly envelope: ModernEnvelope | undefined;
    }
  | { readonly ok: false; readonly check: string; readonly response: ErrorResponse };

interface State extends ModernPost {
  readonly options: ModernCheckOptions;
  /** Set by {@link checkEnvelope}. */
  envelope: ModernEnvelope | undefined;
  /** Set by {@link checkRevisionSupported}. */
  revision: Revision | undefined;
}

type Check = (state: State) => ErrorResponse | undefined;

/**
 * The order of the checks; the first failure is the response. HTTP method, content type, size and JSON-RPC shape are
 * checked before, the parameters after (MCP 2026-07-28, Streamable HTTP and Lifecycle).
 */
const checks: readonly Check[] = [
  checkEnvelope,
  checkRevisionHeader,
  checkMethodHeader,
  checkRevisionSupported,
  checkRequiredHeaders,
  checkCapabilities,
  checkParameters,
  checkMethodServed,
];

/** Checks a POST that {@link classifyPost} found to be modern. */
export function checkModernPost(post: ModernPost, options: ModernCheckOptions): ModernCheckResult {
  const state: State = { ...post, options, envelope: undefined, revision: undefined };
  for (const check of checks) {
    const response = check(state);
    if (response !== undefined) return { ok: false, check: check.name, response };
  }
  const { revision, envelope } = state;
  if (revision === undefined) throw new TypeError("a modern POST passed without a supported revision");
  return { ok: true, revision, envelope };
}

/** The response to a revision that is not served; lists the supported ones. */
export function unsupportedRevision(
  message: MethodMessage,
  supported: readonly Revision[],
  requested: string | undefined,
): ErrorResponse {
  const named = requested === undefined ? "the request names none" : requested;
  return errorResponse("unsupported_revision", `unsupported protocol version: ${named}`, {
    id: message.id,
    data: { supported, ...(requested === undefined ? {} : { requested }) },
  });
}

/** The response to headers that differ from the body. */
export function headerMismatch(
  message: MethodMessage,
  { header, problem, message: text }: HeaderMismatch,
): ErrorResponse {
  return errorResponse("header_mismatch", text, { id: message.id, data: { header, problem } });
}

function checkEnvelope(state: State): ErrorResponse | undefined {
  const { message } = state;
  // Only requests must have an envelope; the revision of a notification may be in the header alone.
  if (message.kind === "notification" && !claimsModern(message)) return undefined;
  const parsed = parseEnvelope(message);
  if (parsed.ok) {
    state.envelope = parsed.envelope;
    return undefined;
  }
  // In a notification only the version key has a meaning.
  const problems =
    message.kind === "request"
      ? parsed.problems
      : parsed.problems.filter(({ key }) => key.endsWith("/protocolVersion"));
  return problems.length === 0 ? undefined : invalidEnvelope(message, problems);
}

/** Names the keys, because clients need them to fix the request. */
function invalidEnvelope(message: MethodMessage, problems: readonly EnvelopeProblem[]): ErrorResponse {
  const list = problems.map(({ key, problem, expected }) => `${key} is ${problem} (expected ${expected})`);
  return errorResponse("invalid_params", `params._meta is invalid: ${list.join("; ")}`, {
    id: message.id,
    data: { envelope: problems },
    useAlternateStatus: true,
  });
}

function checkRevisionHeader(state: State): ErrorResponse | undefined {
  const { message, header } = state;
  const named = revisionHeaderOf(header);
  const claimed = claimedRevision(state);
  if (named === undefined) {
    return message.kind === "notification" ? undefined : mismatch(message, "MCP-Protocol-Version", "missing");
  }
  return claimed === undefined || named === claimed
    ? undefined
    : mismatch(message, "MCP-Protocol-Version", "different");
}

function checkMethodHeader({ message, header }: State): ErrorResponse | undefined {
  const named = methodHeaderOf(header);
  return named === undefined || named === message.method ? undefined : mismatch(message, "Mcp-Method", "different");
}

function checkRevisionSupported(state: State): ErrorResponse | undefined {
  const { message, header, options } = state;
  const requested = claimedRevision(state) ?? revisionHeaderOf(header);
  const parsed = requested === undefined ? undefined : parseRevision(requested);
  if (parsed?.ok === true) {
    const { revision } = parsed;
    // A legacy revision may be served after `initialize`, but never with an envelope.
    if (revisions[revision].era === "modern" && options.supported.includes(revision)) {
      state.revision = revision;
      return undefined;
    }
  }
  return unsupportedRevision(message, options.supported, requested);
}

function checkRequiredHeaders({ message, header }: State): ErrorResponse | undefined {
  // The specification defines no header rules for notifications.
  if (message.kind === "notification") return undefined;
  if (methodHeaderOf(header) === undefined) return mismatch(message, "Mcp-Method", "missing");
  const found = checkNameHeader(message, header);
  return found === undefined ? undefined : headerMismatch(message, found);
}

function checkCapabilities({ message, options, envelope, revision }: State): ErrorResponse | undefined {
  if (message.kind === "notification" || envelope === undefined) return undefined;
  const needed = requiredExtension(message.method, revision);
  const demanded = options.requiredCapabilities?.(message);
  if (needed === undefined && demanded === undefined) return undefined;
  const required = { ...needed, ...demanded };
  if (Object.keys(required).length === 0) return undefined;
  // `checkEnvelope` made sure that this is an object.
  const declared = JSON.parse(envelope.clientCapabilities) as Capabilities;
  const missing = missingCapabilities(required, declared);
  if (missing === undefined) return undefined;
  const names = Object.keys(missing).join(", ");
  return errorResponse("missing_capability", `the client did not declare the required capabilities: ${names}`, {
    id: message.id,
    data: { requiredCapabilities: missing },
  });
}

function checkParameters({ message, header, options }: State): ErrorResponse | undefined {
  if (options.headerParameters === undefined || message.kind === "notification") return undefined;
  if (methodFacts(message.method)?.target !== "tool") return undefined;
  const tool = memberString(message, "params.name");
  const parameters = tool === undefined ? undefined : options.headerParameters?.(tool);
  const found = parameters === undefined ? undefined : checkParameterHeaders(message, parameters, header);
  return found === undefined ? undefined : headerMismatch(message, found);
}

function checkMethodServed({ message, options, revision }: State): ErrorResponse | undefined {
  // A notification gets no response; an unknown one is accepted and ignored.
  if (message.kind === "notification" || revision === undefined) return undefined;
  const { method, id } = message;
  const isServed =
    options.isServed?.(method, revision) ?? methodStatus(method, revision, "client-to-server", "request") === "known";
  return isServed ? undefined : errorResponse("method_not_found", "method not found", { id, useAlternateStatus: true });
}

/** The extension that the client must declare to call a method (Tasks extension, "Capability Negotiation"). */
function requiredExtension(method: string, revision: Revision | undefined): Capabilities | undefined {
  const facts = methodFacts(method);
  if (facts?.extension === undefined || revision === undefined) return undefined;
  return facts.forms[revision] === "extension" ? { extensions: { [facts.extension]: {} } } : undefined;
}

/** The revision that the body names, even if its envelope is incomplete. */
function claimedRevision({ message }: State): string | undefined {
  return memberString(message, "params._meta.io.modelcontextprotocol/protocolVersion");
}

function mismatch(message: MethodMessage, header: string, problem: "missing" | "different"): ErrorResponse {
  return headerMismatch(message, toHeaderMismatch(header, problem));
}
