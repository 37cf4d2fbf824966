import { GatewayError } from "../../errors.ts";
import { withoutUndefined } from "../../lib/without-undefined.ts";

/** The stable codes of failed calls, with their status over REST; tools return `isError` (KO-022). */
export const failureStatus = {
  validation_failed: 400,
  /** The caller may not store this record. */
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  /** The record has another version than the caller expected (optimistic concurrency). */
  version_mismatch: 412,
  /** A custom tool failed for a reason of its own. */
  tool_failed: 422,
  /** The store did not answer; the same call may succeed later. */
  store_failed: 503,
} as const;

/** One of the stable failure codes. */
export type FailureCode = keyof typeof failureStatus;

/** What is wrong with one field. */
export interface FieldIssue {
  /** Dotted path inside the arguments; empty for the whole. */
  readonly path: string;
  readonly message: string;
}

/** Why a call failed, for the caller to read. */
export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
  readonly issues?: readonly FieldIssue[];
}

/**
 * The error that a hook or a tool throws to fail with a message for the caller. REST answers with the status of the
 * code, tools with `isError`. Any other error is a fault: the caller only gets its id in the log.
 *
 * @example
 * if (order.isShipped) throw kitFailure("conflict", "the order has been shipped already");
 */
export function kitFailure(
  code: FailureCode,
  message: string,
  extras: { readonly issues?: readonly FieldIssue[]; readonly cause?: unknown } = {},
): GatewayError {
  const { issues, cause } = extras;
  const failure: Failure = { code, message, ...withoutUndefined({ issues }) };
  const kind = code === "store_failed" ? "store_failed" : "invalid_params";
  return new GatewayError(kind, message, { details: { failure }, ...withoutUndefined({ cause }) });
}

/** The failure of an error that `kitFailure` created; undefined for any other error. */
export function readFailure(error: unknown): Failure | undefined {
  if (!(error instanceof GatewayError)) return undefined;
  // Only kitFailure sets this detail.
  return error.details?.["failure"] as Failure | undefined;
}

/** The failure of invalid arguments; its message names every field and rule (KO-022). */
export function invalidArguments(issues: readonly FieldIssue[]): GatewayError {
  const texts = issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
  return kitFailure("validation_failed", `invalid arguments: ${texts.join("; ")}`, { issues });
}

/** The failure of a missing record; the same for one that the caller may not see (KO-015). */
export function notFound(entity: string): GatewayError {
  return kitFailure("not_found", `${entity} not found`);
}
