import { isObject } from "../../lib/is-object.ts";
import { type Capabilities, methodFacts, missingCapabilities, requiredClientCapabilities } from "../methods.ts";
import type { HeaderParameter } from "../http/header-parameters.ts";
import { memberSource, memberString, memberType, memberValue } from "../json/read.ts";
import { createDiagnostic, type Diagnostic, type FindingCode } from "../diagnostics.ts";
import type { ErrorMessage, NotificationMessage, RequestMessage, ResultMessage } from "../message.ts";
import {
  checkNameHeader,
  checkParameterHeaders,
  type HeaderLookup,
  type HeaderMismatch,
  methodHeaderOf,
  revisionHeaderOf,
  toHeaderMismatch,
} from "../http/mirrored-headers.ts";
import { type Revision, revisions } from "../revisions.ts";

// These checks depend on earlier messages; the caller passes what it knows about them.

const none: readonly Diagnostic[] = Object.freeze([]);

/** Checks the id of a request against earlier ids of its sender (MCP 2025-11-25 and 2026-07-28, Overview, Requests). */
export function checkIdReuse(
  message: RequestMessage,
  used: { readonly isInFlight: boolean; readonly wasUsed: boolean },
  revision: Revision,
): readonly Diagnostic[] {
  const id = message.id.json;
  if (used.isInFlight) return [createDiagnostic("id.in-flight", `the id ${id} is already in flight`)];
  if (!used.wasUsed || revisions[revision].idUniqueness !== "session") return none;
  return [createDiagnostic("id.reused", `the id ${id} was used before in this session`)];
}

/** The state of the request that a response names. */
export type AnswerState = "pending" | "answered" | "given-up" | "none";

/** Checks a response against its request. */
export function checkAnswer(message: ResultMessage | ErrorMessage, state: AnswerState): readonly Diagnostic[] {
  if (message.id === undefined) {
    return [createDiagnostic("response.unaddressed", "the error has no id: its request was unreadable")];
  }
  const id = message.id.json;
  if (state === "answered") return [createDiagnostic("response.duplicate", `the request ${id} was already answered`)];
  if (state === "given-up") return [createDiagnostic("response.late", `the request ${id} was cancelled or timed out`)];
  return state === "none" ? [createDiagnostic("response.orphan", `there is no request ${id}`)] : none;
}

/** Checks a progress notification against the last one for its token; values must increase (MCP 2025-11-25, Progress). */
export function checkProgress(
  message: NotificationMessage,
  token: { readonly isKnown: boolean; readonly hasEnded: boolean; readonly last: number | undefined },
): readonly Diagnostic[] {
  if (!token.isKnown) return [createDiagnostic("progress.unknown-token", "no request has this token")];
  if (token.hasEnded) return [createDiagnostic("progress.after-end", "the request has ended")];
  const source = memberType(message, "params.progress") === "number" ? memberSource(message, "params.progress") : "";
  const value = source === undefined || source === "" ? undefined : Number(source);
  if (value === undefined || token.last === undefined || value > token.last) return none;
  const text = `progress went from ${token.last} to ${value}`;
  return [createDiagnostic("progress.not-rising", text, { data: { last: token.last, value } })];
}

/** Compares all mirrored headers of a modern request with its body. */
export function checkMirroredHeaders(
  message: RequestMessage,
  header: HeaderLookup,
  parameters: readonly HeaderParameter[] = [],
): readonly Diagnostic[] {
  const claimed = memberString(message, "params._meta.io.modelcontextprotocol/protocolVersion");
  const compared = [
    compareHeader("MCP-Protocol-Version", revisionHeaderOf(header), claimed),
    compareHeader("Mcp-Method", methodHeaderOf(header), message.method),
    checkNameHeader(message, header),
    checkParameterHeaders(message, parameters, header),
  ];
  return compared
    .filter((mismatch) => mismatch !== undefined)
    .map(({ header: name, problem, message: text }) =>
      createDiagnostic("header.mismatch", text, { data: { header: name, problem } }),
    );
}

/** Checks that the receiver of a request declared the capability that it needs. */
export function checkCapability(
  message: RequestMessage,
  declared: Capabilities,
  revision: Revision,
): readonly Diagnostic[] {
  const capability = methodFacts(message.method)?.capability;
  if (capability === undefined || !isDeclarable(capability, revision)) return none;
  const required = requiredClientCapabilities(message.method, memberValue(message, "params")) ?? { [capability]: {} };
  return missing(
    "capability.missing",
    required,
    declared,
    `the receiver did not declare the capability for ${message.method}`,
  );
}

/** Checks a result that asks for input against its request (MCP 2026-07-28, Multi Round-Trip Requests). */
export function checkInputRequired(
  message: ResultMessage,
  request: { readonly method: string; readonly capabilities: Capabilities },
): readonly Diagnostic[] {
  if (memberString(message, "result.resultType") !== "input_required") return none;
  if (methodFacts(request.method)?.inputRequired !== true) {
    return [createDiagnostic("input.not-allowed", `the result of ${request.method} must not ask for input`)];
  }
  const inputRequests = memberValue(message, "result.inputRequests");
  if (inputRequests === undefined && memberType(message, "result.requestState") === undefined) {
    return [createDiagnostic("input.empty", "the result has neither inputRequests nor requestState")];
  }
  return entries(inputRequests).flatMap(([key, inputRequest]) => {
    const method = property(inputRequest, "method");
    const required =
      typeof method === "string" ? requiredClientCapabilities(method, property(inputRequest, "params")) : undefined;
    if (required === undefined) {
      return [createDiagnostic("input.method", `the input request ${key} has an unknown method`)];
    }
    const text = `the client did not declare the capability for the input request ${key}`;
    return missing("input.capability", required, request.capabilities, text);
  });
}

/** Warns about an unknown revision, once for each text in `warned`, which the caller keeps. */
export function warnUnknownRevision(text: string, warned: ReadonlySet<string>): readonly Diagnostic[] {
  if (warned.has(text)) return none;
  const message = `unknown revision ${JSON.stringify(text)}: only the envelope is checked`;
  return [createDiagnostic("revision.unknown", message, { data: { revision: text } })];
}

function compareHeader(
  header: string,
  received: string | undefined,
  expected: string | undefined,
): HeaderMismatch | undefined {
  if (received === expected) return undefined;
  return toHeaderMismatch(header, received === undefined ? "missing" : "different");
}

/** Whether the revision has the capability; some methods are older than theirs. */
function isDeclarable(capability: string, revision: Revision): boolean {
  const { capabilities } = revisions[revision];
  const later: readonly string[] = ["completions", "elicitation", "tasks"];
  return !later.includes(capability) || capabilities.some((known) => known === capability);
}

function missing(
  code: FindingCode,
  required: Capabilities,
  declared: Capabilities,
  text: string,
): readonly Diagnostic[] {
  const lacking = missingCapabilities(required, declared);
  if (lacking === undefined) return none;
  return [createDiagnostic(code, text, { data: { requiredCapabilities: lacking } })];
}

function entries(value: unknown): readonly (readonly [string, unknown])[] {
  return isObject(value) ? Object.entries(value) : [];
}

function property(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}
