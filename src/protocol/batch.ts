import type { Message, MessageOutcome } from "./message.ts";

/** A batch's messages by kind, each list in the order of the batch. */
export interface GroupedMessages {
  readonly requests: readonly Message[];
  readonly notifications: readonly Message[];
  readonly responses: readonly Message[];
  readonly invalid: number;
  readonly total: number;
}

/** Groups the members of a batch by kind; order within a group is the original one. */
export function groupByKind(members: readonly MessageOutcome[]): GroupedMessages {
  const requests: Message[] = [];
  const notifications: Message[] = [];
  const responses: Message[] = [];
  let invalid = 0;
  for (const member of members) {
    if (!member.ok) invalid++;
    else if (member.message.kind === "request") requests.push(member.message);
    else if (member.message.kind === "notification") notifications.push(member.message);
    else responses.push(member.message);
  }
  return { requests, notifications, responses, invalid, total: members.length };
}

const open = Buffer.from("[");
const comma = Buffer.from(",");
const close = Buffer.from("]");

/**
 * Joins the answers to what came in one body: an array only if that was a batch, one message otherwise, and nothing
 * where no answer is due (MCP 2025-03-26, Transports). The answers' bytes go in unchanged.
 */
export function combineAnswers(answers: readonly Buffer[], cameAsBatch: boolean): Buffer | undefined {
  const [first] = answers;
  if (first === undefined) return undefined;
  if (!cameAsBatch) return first;
  const parts: Buffer[] = [open];
  for (const [index, answer] of answers.entries()) {
    if (index > 0) parts.push(comma);
    parts.push(answer);
  }
  parts.push(close);
  return Buffer.concat(parts);
}

/** The bytes of one message alone; for a batch member, its part of the batch. */
export function messageBytes(message: Message): Buffer {
  const { start, end } = message.outline;
  return start === 0 && end === message.bytes.length ? message.bytes : message.bytes.subarray(start, end);
}
