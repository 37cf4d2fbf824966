import { type Capabilities, methodFacts, missingCapabilities, requiredClientCapabilities } from "../methods.ts";
import type { HeaderParameter } from "../http/header-parameters.ts";
import { memberSource, memberString, memberType, memberValue } from "../json/read.ts";
import type { Diagnostic, ErrorMessage, NotificationMessage, RequestMessage, ResultMessage } from "../message.ts";
import {
  checkNameHeader,
  checkParameterHeaders,
  type HeaderLookup,
  methodHeaderOf,
  revisionHeaderOf,
} from "../http/mirrored-headers.ts";
import { type Revision, revisions } from "../revisions.ts";

// Everything here needs to know what went before; the caller knows it and says so in the arguments.

const none: readonly Diagnostic[] = Object.freeze([]);

/** Judges the id of a request against those its sender has used (MCP 2025-11-25 and 2026-07-28, Overview, Requests). */
export function checkIdReuse(
  message: RequestMessage,
  used: { readonly isInFlight: boolean; readonly wasUsed: boolean },
  revision: Revision,
): readonly Diagnostic[] {
  const id = message.id.json;
  if (used.isInFlight) return [found("id.in-flight", "error", `the id ${id} is already in flight`, "/id")];
  if (!used.wasUsed || revisions[revision].idUniqueness !== "session") return none;
  return [found("id.reused", "warn", `the id ${id} was used before in this session`, "/id")];
}

/** What is left of the request that a response names. */
export type AnswerState = "pending" | "answered" | "given-up" | "none";

/** Judges a response against the request that it answers, or fails to. */
export function checkAnswer(message: ResultMessage | ErrorMessage, state: AnswerState): readonly Diagnostic[] {
  if (message.id === undefined) {
    return [found("response.unaddressed", "warn", "the error answers a request that could not be read")];
  }
  const id = message.id.json;
  if (state === "answered") {
    return [found("response.duplicate", "warn", `the request ${id} was answered before`, "/id")];
  }
  if (state === "given-up") {
    return [found("response.late", "warn", `the request ${id} was cancelled or timed out`, "/id")];
  }
  return state === "none" ? [found("response.orphan", "warn", `no request ${id} is known`, "/id")] : none;
}

/** Judges a progress notification against the last one for its token; values must rise (MCP 2025-11-25, Progress). */
export function checkProgress(
  message: NotificationMessage,
  token: { readonly isKnown: boolean; readonly hasEnded: boolean; readonly last: number | undefined },
): readonly Diagnostic[] {
  if (!token.isKnown) {
    return [found("progress.unknown-token", "warn", "no request has this token", "/params/progressToken")];
  }
  if (token.hasEnded) {
    return [found("progress.after-end", "warn", "the request has ended", "/params/progressToken")];
  }
  const source = memberType(message, "params.progress") === "number" ? memberSource(message, "params.progress") : "";
  const value = source === undefined || source === "" ? undefined : Number(source);
  if (value === undefined || token.last === undefined || value > token.last) return none;
  const text = `progress went from ${token.last} to ${value}`;
  return [found("progress.not-rising", "warn", text, "/params/progress", { last: token.last, value })];
}

/** Compares all headers of a modern request with its body, and reports each that differs. */
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
      found("header.mismatch", "error", text, undefined, { header: name, problem }),
    );
}

/** Judges a request by what its receiver has declared that it can do. */
export function checkCapability(
  message: RequestMessage,
  declared: Capabilities,
  revision: Revision,
): readonly Diagnostic[] {
  const capability = methodFacts(message.method)?.capability;
  if (capability === undefined || !isDeclarable(capability, revision)) return none;
  const required = requiredClientCapabilities(message.method, memberValue(message, "params")) ?? {
    [capability]: {},
  };
  return missing("capability.missing", required, declared, `the receiver did not declare what ${message.method} needs`);
}

/** Judges a result that asks for input, by the request that it interrupts (MCP 2026-07-28, Multi Round-Trip Requests). */
export function checkInputRequired(
  message: ResultMessage,
  request: { readonly method: string; readonly capabilities: Capabilities },
): readonly Diagnostic[] {
  if (memberString(message, "result.resultType") !== "input_required") return none;
  if (methodFacts(request.method)?.inputRequired !== true) {
    return [found("input.not-allowed", "error", `${request.method} cannot ask for input`, "/result/resultType")];
  }
  const asks = memberValue(message, "result.inputRequests");
  if (asks === undefined && memberType(message, "result.requestState") === undefined) {
    return [found("input.empty", "error", "neither inputRequests nor requestState is there", "/result")];
  }
  return entries(asks).flatMap(([key, ask]) => {
    const method = property(ask, "method");
    const required =
      typeof method === "string" ? requiredClientCapabilities(method, property(ask, "params")) : undefined;
    if (required === undefined) {
      return [found("input.method", "error", `the question ${key} has a method that cannot be asked`)];
    }
    const text = `the client did not declare what the question ${key} needs`;
    return missing("input.capability", required, request.capabilities, text);
  });
}

/** A round that waits for its retry. */
export interface OpenRound {
  readonly requestState: string | undefined;
  /** The keys of the questions. */
  readonly keys: readonly string[];
  /** How many rounds there have been, this one included. */
  readonly rounds: number;
}

/** More rounds than this are a loop (SC-056). */
const mostRounds = 10;

/** Judges a retry by the round that it answers; answers to questions nobody asked are ignored, as servers do. */
export function checkRetry(message: RequestMessage, round: OpenRound): readonly Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  const state = memberString(message, "params.requestState");
  if (state !== round.requestState) {
    const text = state === undefined ? "missing" : round.requestState === undefined ? "invented" : "changed";
    diagnostics.push(found("retry.state", "error", `requestState is ${text}`, "/params/requestState"));
  }
  const answered = new Set(entries(memberValue(message, "params.inputResponses")).map(([key]) => key));
  const open = round.keys.filter((key) => !answered.has(key));
  if (open.length > 0) {
    const text = `no answer to ${open.join(", ")}`;
    diagnostics.push(found("retry.keys", "warn", text, "/params/inputResponses", { missing: open }));
  }
  if (round.rounds > mostRounds) {
    diagnostics.push(found("retry.rounds", "error", `more than ${mostRounds} rounds for one operation`));
  }
  return diagnostics;
}

/** The warning about a revision nobody here knows: once for each text within a scope, whose list the caller keeps. */
export function warnUnknownRevision(text: string, warned: ReadonlySet<string>): readonly Diagnostic[] {
  if (warned.has(text)) return none;
  const message = `unknown revision ${JSON.stringify(text)}: only the envelope is checked`;
  return [found("revision.unknown", "warn", message, undefined, { revision: text })];
}

function compareHeader(header: string, received: string | undefined, expected: string | undefined) {
  if (received === expected) return undefined;
  const problem = received === undefined ? "missing" : "different";
  return { header, problem, message: `the header ${header} is ${problem}` };
}

/** Some methods are older than the capability that announces them. */
function isDeclarable(capability: string, revision: Revision): boolean {
  const { capabilities } = revisions[revision];
  const later: readonly string[] = ["completions", "elicitation", "tasks"];
  return !later.includes(capability) || capabilities.some((known) => known === capability);
}

function missing(code: string, required: Capabilities, declared: Capabilities, text: string): readonly Diagnostic[] {
  const lacking = missingCapabilities(required, declared);
  if (lacking === undefined) return none;
  return [found(code, "error", text, undefined, { requiredCapabilities: lacking })];
}

function entries(value: unknown): readonly (readonly [string, unknown])[] {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
}

function property(value: unknown, name: string): unknown {
  return entries(value).find(([key]) => key === name)?.[1];
}

function found(
  code: string,
  severity: Diagnostic["severity"],
  message: string,
  path?: string,
  data?: Readonly<Record<string, unknown>>,
): Diagnostic {
  return {
    code,
    severity,
    message,
    ...(path === undefined ? {} : { path }),
    ...(data === undefined ? {} : { data }),
  };
}
