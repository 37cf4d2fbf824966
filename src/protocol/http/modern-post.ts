import { type Capabilities, methodFacts, methodStatus, missingCapabilities } from "../methods.ts";
import {
  claimsModern,
  type EnvelopeProblem,
  type MethodMessage,
  type ModernEnvelope,
  parseEnvelope,
} from "../envelope.ts";
import type { HeaderParameter } from "./header-parameters.ts";
import { memberString } from "../json/read.ts";
import type { RequestMessage } from "../message.ts";
import {
  checkNameHeader,
  checkParameterHeaders,
  type HeaderLookup,
  type HeaderMismatch,
  methodHeaderOf,
  revisionHeaderOf,
} from "./mirrored-headers.ts";
import { errorResponse, type ErrorResponse } from "../error-response.ts";
import { parseRevision, type Revision, revisions } from "../revisions.ts";

/** What the checks need to know besides the POST itself. */
export interface ModernCheckOptions {
  /** What `server/discover` lists, newest first; only the modern ones among them are served this way. */
  readonly supported: readonly Revision[];
  /** The client capabilities that a request cannot do without, where that is known before it runs. */
  readonly requiredCapabilities?: (message: RequestMessage) => Capabilities | undefined;
  /** The header parameters of a tool; undefined where its schema is not known, which checks none. */
  readonly headerParameters?: (tool: string) => readonly HeaderParameter[] | undefined;
  /** Whether a method is served; without it, whether the revision has it. */
  readonly isServed?: (method: string, revision: Revision) => boolean;
}

/** A modern POST: what it says and the headers it came with. */
export interface ModernPost {
  readonly message: MethodMessage;
  readonly header: HeaderLookup;
}

/** Whether a modern POST may go on, and if not, at which check it failed. */
export type ModernCheckResult =
  | {
      readonly ok: true;
      readonly revision: Revision;
      /** Absent only for a notification, which need not carry one. */
      readonly envelope: ModernEnvelope | undefined;
    }
  | { readonly ok: false; readonly check: string; readonly refusal: ErrorResponse };

interface State extends ModernPost {
  readonly facts: ModernCheckOptions;
  /** Set by the check of the envelope. */
  envelope: ModernEnvelope | undefined;
  /** Set by the check of the supported revisions. */
  revision: Revision | undefined;
}

type Check = (state: State) => ErrorResponse | undefined;

/**
 * The order in which a modern POST is judged; the first failure answers. Verb, content type, size and JSON-RPC shape
 * come before, the parameters and the handler after (MCP 2026-07-28, Streamable HTTP and Lifecycle).
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

/** The names of the checks in their order. */
export const modernCheckNames: readonly string[] = checks.map((check) => check.name);

/** Judges a POST that the body has shown to be modern. */
export function checkModernPost(post: ModernPost, facts: ModernCheckOptions): ModernCheckResult {
  const state: State = { ...post, facts, envelope: undefined, revision: undefined };
  for (const check of checks) {
    const refusal = check(state);
    if (refusal !== undefined) return { ok: false, check: check.name, refusal };
  }
  const { revision, envelope } = state;
  if (revision === undefined) throw new TypeError("a modern POST passed without a supported revision");
  return { ok: true, revision, envelope };
}

/** The refusal of a revision that is not served: names what is, and what was asked for where it was named. */
export function unsupportedRevision(
  message: MethodMessage,
  supported: readonly Revision[],
  requested: string | undefined,
): ErrorResponse {
  const named = requested === undefined ? "no protocol version was named" : `not served: ${requested}`;
  return errorResponse("unsupported_revision", `unsupported protocol version (${named})`, {
    id: message.id,
    data: { supported, ...(requested === undefined ? {} : { requested }) },
  });
}

/** The refusal of headers that do not say what the body says. */
export function headerMismatch(
  message: MethodMessage,
  { header, problem, message: text }: HeaderMismatch,
): ErrorResponse {
  return errorResponse("header_mismatch", text, { id: message.id, data: { header, problem } });
}

function checkEnvelope(state: State): ErrorResponse | undefined {
  const { message } = state;
  // Only requests must carry an envelope; a notification may leave it to the header to name the revision.
  if (message.kind === "notification" && !claimsModern(message)) return undefined;
  const reading = parseEnvelope(message);
  if (reading.ok) {
    state.envelope = reading.envelope;
    return undefined;
  }
  if (message.kind === "notification") {
    // A notification has no envelope of its own: of all these keys only the claim itself means something in it.
    const faults = reading.faults.filter(({ key }) => key.endsWith("/protocolVersion"));
    return faults.length === 0 ? undefined : invalidEnvelope(message, faults);
  }
  return invalidEnvelope(message, reading.faults);
}

/** Names the keys, because clients need them to mend the request. */
function invalidEnvelope(message: MethodMessage, faults: readonly EnvelopeProblem[]): ErrorResponse {
  const list = faults.map(({ key, problem, expected }) => `${key} is ${problem} (expected ${expected})`);
  return errorResponse("invalid_params", `params._meta is not a valid envelope: ${list.join("; ")}`, {
    id: message.id,
    data: { envelope: faults },
    useAlternateStatus: true,
  });
}

function checkRevisionHeader(state: State): ErrorResponse | undefined {
  const { message, header } = state;
  const named = revisionHeaderOf(header);
  const claimed = claimOf(state);
  if (named === undefined) {
    return message.kind === "notification" ? undefined : mismatched(message, "MCP-Protocol-Version", "missing");
  }
  return claimed === undefined || named === claimed
    ? undefined
    : mismatched(message, "MCP-Protocol-Version", "different");
}

function checkMethodHeader({ message, header }: State): ErrorResponse | undefined {
  const named = methodHeaderOf(header);
  return named === undefined || named === message.method ? undefined : mismatched(message, "Mcp-Method", "different");
}

function checkRevisionSupported(state: State): ErrorResponse | undefined {
  const { message, header, facts } = state;
  const requested = claimOf(state) ?? revisionHeaderOf(header);
  const reading = requested === undefined ? undefined : parseRevision(requested);
  if (reading?.ok === true) {
    const { revision } = reading;
    // A legacy revision has no envelope: served after `initialize` perhaps, but never like this.
    if (revisions[revision].era === "modern" && facts.supported.includes(revision)) {
      state.revision = revision;
      return undefined;
    }
  }
  return unsupportedRevision(message, facts.supported, requested);
}

function checkRequiredHeaders({ message, header }: State): ErrorResponse | undefined {
  // Header rules for notifications are left undefined by the specification: none is required.
  if (message.kind === "notification") return undefined;
  if (methodHeaderOf(header) === undefined) return mismatched(message, "Mcp-Method", "missing");
  const found = checkNameHeader(message, header);
  return found === undefined ? undefined : headerMismatch(message, found);
}

function checkCapabilities({ message, facts, envelope, revision }: State): ErrorResponse | undefined {
  if (message.kind === "notification" || envelope === undefined) return undefined;
  const needed = extensionNeeded(message.method, revision);
  const demanded = facts.requiredCapabilities?.(message);
  if (needed === undefined && demanded === undefined) return undefined;
  const required = { ...needed, ...demanded };
  if (Object.keys(required).length === 0) return undefined;
  // The check of the envelope has seen that this is the text of an object.
  const declared = JSON.parse(envelope.clientCapabilities) as Capabilities;
  const missing = missingCapabilities(required, declared);
  if (missing === undefined) return undefined;
  const names = Object.keys(missing).join(", ");
  return errorResponse("missing_capability", `the client did not declare what this request needs: ${names}`, {
    id: message.id,
    data: { requiredCapabilities: missing },
  });
}

function checkParameters({ message, header, facts }: State): ErrorResponse | undefined {
  if (facts.headerParameters === undefined || message.kind === "notification") return undefined;
  if (methodFacts(message.method)?.target !== "tool") return undefined;
  const tool = memberString(message, "params.name");
  const parameters = tool === undefined ? undefined : facts.headerParameters?.(tool);
  const found = parameters === undefined ? undefined : checkParameterHeaders(message, parameters, header);
  return found === undefined ? undefined : headerMismatch(message, found);
}

function checkMethodServed({ message, facts, revision }: State): ErrorResponse | undefined {
  // A notification cannot be answered; an unknown one is accepted and goes nowhere.
  if (message.kind === "notification" || revision === undefined) return undefined;
  const { method, id } = message;
  const isServed =
    facts.isServed?.(method, revision) ?? methodStatus(method, revision, "client-to-server", "request") === "known";
  return isServed ? undefined : errorResponse("method_not_found", "method not found", { id, useAlternateStatus: true });
}

/** What an extension method needs: that the client declared the extension (Tasks extension, "Capability Negotiation"). */
function extensionNeeded(method: string, revision: Revision | undefined): Capabilities | undefined {
  const known = methodFacts(method);
  if (known?.extension === undefined || revision === undefined) return undefined;
  return known.forms[revision] === "extension" ? { extensions: { [known.extension]: {} } } : undefined;
}

/** The revision that the body names, be its envelope complete or not. */
function claimOf({ message }: State): string | undefined {
  return memberString(message, "params._meta.io.modelcontextprotocol/protocolVersion");
}

function mismatched(message: MethodMessage, header: string, problem: "missing" | "different"): ErrorResponse {
  const text = problem === "missing" ? `the header ${header} is missing` : `the header ${header} and the body differ`;
  return headerMismatch(message, { header, problem, message: text });
}
