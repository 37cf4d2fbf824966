import { anonymous, createExchange, type Exchange, type Principal, principalNameOf } from "../../core/exchange.ts";
import type { DecisionEvent } from "../../policy/provider/decision-event.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { newestLegacy, parseRevision } from "../../protocol/revisions.ts";
import type { Frame, FrameContext, FrameLeg } from "../../recorder/contract.ts";
import { recordedMessage } from "../../recorder/replay/mock.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";

/** An exchange that is rebuilt while its frames are read. */
export interface ReplayedExchange {
  readonly exchange: Exchange;
  readonly context: FrameContext;
  /** Whether scopes and claims of the caller are known. */
  readonly isCallerKnown: boolean;
  readonly frames: Frame[];
}

/** Callers whose scopes and claims are known, by id or short name. */
export type KnownCallers = ReadonlyMap<string, Principal>;

function knownCaller(id: string, callers: KnownCallers): Principal | undefined {
  if (id === anonymous.id) return anonymous;
  const known = callers.get(id) ?? callers.get(principalNameOf(id));
  return known === undefined ? undefined : { ...known, id };
}

/** The exchange that a recorded message started; undefined if its body was not recorded. */
export function toReplayedExchange(
  frame: Frame,
  { callers, parent }: { readonly callers: KnownCallers; readonly parent: Exchange | undefined },
): ReplayedExchange | undefined {
  const { context, body } = frame;
  const message = body === undefined ? undefined : recordedMessage(body);
  if (context === undefined || message === undefined) return undefined;
  const known = knownCaller(context.principal, callers);
  const reading = parseRevision(context.revision);
  const revision = reading.ok ? reading.revision : newestLegacy;
  const exchange = createExchange({
    id: frame.exchange,
    direction: frame.direction === "c2s" ? "client-to-server" : "server-to-client",
    message,
    route: context.route,
    principal: known ?? { id: context.principal, kind: "token", scopes: new Set(), claims: {} },
    revision,
    session:
      context.session === undefined
        ? undefined
        : { id: context.session, label: context.session, upstreamId: undefined },
    transport: transportOf(context),
    timing: { startedAt: frame.mono, wallTime: frame.at },
    parent,
  });
  return { exchange, context, isCallerKnown: known !== undefined, frames: [frame] };
}

function transportOf({ transport, http }: FrameContext): Exchange["transport"] {
  if (http !== undefined) {
    const { method, path, headers, peer } = http;
    return { type: "http", method, path, headers, ...(peer === undefined ? {} : { peer }) };
  }
  return transport === "stdio" ? { type: "stdio", incarnation: "replay" } : { type: "in-process" };
}

/** A message of an exchange by where it passed; undefined if it or its body was not recorded. */
export function messageAt(
  frames: readonly Frame[],
  leg: FrameLeg,
  passing: Frame["passing"],
  isAnswer: boolean,
): Message | undefined {
  const frame = frames.findLast(
    ({ kind, ...one }) =>
      one.leg === leg &&
      one.passing === passing &&
      isAnswer === (kind === "result" || kind === "error") &&
      kind !== "decision",
  );
  if (frame === undefined) return undefined;
  const body = frame.body ?? frames.find(({ seq }) => seq === frame.same)?.body;
  return body === undefined ? undefined : recordedMessage(body);
}

/** The steps of a path in an explanation: `mcp.arguments["a b"].c`. */
export function pathSteps(path: string): readonly string[] {
  return [...path.matchAll(/\["(?<quoted>(?:[^"\\]|\\.)*)"\]|(?<plain>[^.[\]]+)/gu)].map(({ groups }) => {
    const quoted = groups?.["quoted"];
    return quoted === undefined ? (groups?.["plain"] ?? "") : String(JSON.parse(`"${quoted}"`));
  });
}

/** Values that a decision read but a recording lacks: redacted values, headers, and data of callers and sessions. */
export function missingInputs(
  { explanation, refusal }: DecisionEvent,
  replayed: ReplayedExchange,
  answer: Message | undefined,
): readonly string[] {
  const unknown = missingPaths(explanation.read, replayed, answer);
  const needsScopes = refusal?.kind === "scope" && !replayed.isCallerKnown;
  return needsScopes && !unknown.includes("principal.scopes") ? [...unknown, "principal.scopes"] : unknown;
}

/** The paths among these that a recording does not hold. */
export function missingPaths(
  paths: readonly string[],
  replayed: ReplayedExchange,
  answer: Message | undefined,
): readonly string[] {
  return paths.filter((path) => isMissing(path, replayed, answer));
}

function isMissing(
  path: string,
  { exchange, context, isCallerKnown }: ReplayedExchange,
  answer: Message | undefined,
): boolean {
  const [variable = "", field, ...rest] = pathSteps(path);
  const { message } = exchange;
  switch (variable) {
    case "principal":
      return !isCallerKnown && field !== "id";
    case "session":
      // Only the beginning of a session id is recorded: the whole would be a credential.
      return context.session !== undefined;
    case "request":
      return isRequestFieldMissing(field, rest[0], context);
    case "mcp":
      if (field === "arguments") return isRedacted(message, "params.arguments", rest);
      return field === "params" || field === undefined ? isRedacted(message, "params", rest) : false;
    case "result":
      return answer !== undefined && isRedacted(answer, "result", field === undefined ? [] : [field, ...rest]);
    case "error":
      return answer !== undefined && isRedacted(answer, "error", field === undefined ? [] : [field, ...rest]);
    case "entry":
      return answer !== undefined && isRedacted(answer, "result", []);
    default:
      return false;
  }
}

function isRequestFieldMissing(
  field: string | undefined,
  name: string | undefined,
  { http, transport }: FrameContext,
): boolean {
  if (field !== "headers" || transport !== "http") return false;
  const value = name === undefined ? undefined : http?.headers[name.toLowerCase()];
  return value === undefined || hasPlaceholder(value);
}

function isRedacted(
  message: Message,
  member: "params" | "params.arguments" | "result" | "error",
  steps: readonly string[],
): boolean {
  let value = memberValue(message, member);
  for (const step of steps) {
    if (typeof value !== "object" || value === null) return typeof value === "string" && hasPlaceholder(value);
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return value !== undefined && hasPlaceholder(JSON.stringify(value));
}
