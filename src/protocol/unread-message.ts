import type { RequestId } from "./message.ts";
import { parse } from "./parse.ts";

/** What the ends of a message that cannot be read as a whole say about it. */
export interface UnreadMessage {
  readonly id: RequestId;
  readonly kind: "request" | "response";
}

const text = String.raw`"(?:[^"\\]|\\.)*"`;
const scalar = String.raw`(?:${text}|-?\d+)`;
const member = String.raw`\s*"(?:jsonrpc|id|method)"\s*:\s*${scalar}\s*`;
/** The members before the first large one, and its name. */
const startPattern = new RegExp(`^\\s*\\{(?<members>(?:${member},)*)\\s*"(?<large>params|result|error)"\\s*:`, "u");
/** The members after the last large one. Nothing can nest here, because the object ends. */
const endPattern = new RegExp(`,(?<members>${member}(?:,${member})*)\\}\\s*$`, "u");
const idPattern = new RegExp(`"id"\\s*:\\s*(?<id>${scalar})`, "u");

/**
 * Finds the id of a message that is too large or broken inside, and tells whether it is a request or a response. SDKs
 * write the id either before or after everything large. Undefined if the ends do not say it plainly.
 */
export function peekUnread(start: Buffer, end: Buffer): UnreadMessage | undefined {
  const first = startPattern.exec(start.toString("latin1"))?.groups;
  if (first === undefined) return undefined;
  const { members = "", large } = first;
  const last = endPattern.exec(end.toString("latin1"))?.groups?.["members"] ?? "";
  const id = idOf(members) ?? idOf(last);
  if (id === undefined) return undefined;
  const hasMethod = [members, last].some((written) => written.includes('"method"'));
  return { id, kind: hasMethod || large === "params" ? "request" : "response" };
}

function idOf(members: string): RequestId | undefined {
  const written = idPattern.exec(members)?.groups?.["id"];
  if (written === undefined) return undefined;
  // The parser knows what an id may be.
  const outcome = parse(Buffer.from(`{"jsonrpc":"2.0","id":${written}}`, "latin1"), {
    revision: "unknown",
    mode: "enforce",
  });
  return outcome.ok ? undefined : outcome.failure.id;
}
