import type { DecisionEvent } from "../policy/decision.ts";
import { memberValue } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import { hasPlaceholder } from "../redact/placeholder.ts";
import type { ReplayedExchange } from "./replayed-exchange.ts";

/** The steps of a path as explanations write it: `mcp.arguments["a b"].c`. */
function pathSteps(path: string): readonly string[] {
  return [...path.matchAll(/\["(?<quoted>(?:[^"\\]|\\.)*)"\]|(?<plain>[^.[\]]+)/gu)].map(({ groups }) => {
    const quoted = groups?.["quoted"];
    return quoted === undefined ? (groups?.["plain"] ?? "") : String(JSON.parse(`"${quoted}"`));
  });
}

/**
 * What a decision looked at and a recording does not have: values that were redacted, what is not kept of callers and
 * sessions, and headers that are not kept.
 */
export function missingInputs(
  { explanation, refusal: denial }: DecisionEvent,
  replayed: ReplayedExchange,
  answer: Message | undefined,
): readonly string[] {
  const unknown = explanation.read.filter((path) => isMissing(path, replayed, answer));
  const needsScopes = denial?.kind === "scope" && !replayed.isCallerKnown;
  return needsScopes && !unknown.includes("principal.scopes") ? [...unknown, "principal.scopes"] : unknown;
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
      // Only its beginning is kept, because the whole would be a credential.
      return context.session !== undefined;
    case "request":
      return isRequestFieldMissing(field, rest[0], replayedHeaders(context.http?.headers), context.transport);
    case "mcp":
      if (field === "arguments") return isRedacted(message, "params.arguments", rest);
      return field === "params" || field === undefined ? isRedacted(message, "params", rest) : false;
    case "result":
      return (
        answer !== undefined && isRedacted(answer, "result", field === undefined ? [] : [field, ...rest])
      );
    case "error":
      return answer !== undefined && isRedacted(answer, "error", field === undefined ? [] : [field, ...rest]);
    case "entry":
      return answer !== undefined && isRedacted(answer, "result", []);
    default:
      return false;
  }
}

function replayedHeaders(
  headers: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  return headers ?? {};
}

function isRequestFieldMissing(
  field: string | undefined,
  name: string | undefined,
  headers: Readonly<Record<string, string>>,
  transport: string,
): boolean {
  if (field !== "headers" || transport !== "http") return false;
  const value = name === undefined ? undefined : headers[name.toLowerCase()];
  return value === undefined || hasPlaceholder(value);
}

function isRedacted(
  message: Message,
  member: "params" | "params.arguments" | "result" | "error",
  steps: readonly string[],
): boolean {
  let value = memberValue(message, member);
  for (const step of steps) {
    if (typeof value !== "object" || value === null)
      return typeof value === "string" && hasPlaceholder(value);
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return value !== undefined && hasPlaceholder(JSON.stringify(value));
}
