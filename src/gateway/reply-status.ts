import type { Reply } from "../pipeline.ts";
import { memberInteger } from "../protocol/json/read.ts";
import type { Era } from "../protocol/revisions.ts";

/** Errors that MCP 2026-07-28 ties to an HTTP status; all others go in band. */
const modernStatus: Readonly<Record<number, number>> = {
  [-32700]: 400,
  [-32600]: 400,
  [-32601]: 404,
  [-32020]: 400,
  [-32021]: 400,
  [-32022]: 400,
};

/**
 * The HTTP status of an answer: the upstream's own where it spoke HTTP, else what the era ties to the error.
 * A legacy client would take a 404 for the end of its session, so it never gets one this way.
 */
export function replyStatus(era: Era, reply: Reply): number {
  const { message, status } = reply;
  if (message === undefined) return status ?? 202;
  if (message.kind !== "error") return 200;
  if (era === "legacy") return status === undefined || status === 404 ? 200 : status;
  if (status !== undefined && status !== 200) return status;
  const code = memberInteger(message, "error.code");
  return (code === undefined ? undefined : modernStatus[code]) ?? 200;
}
