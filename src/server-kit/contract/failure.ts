import { GatewayError } from "../../errors.ts";
import type { Failure, FailureCode, FieldIssue } from "./contract.ts";

/**
 * An error that a hook or a tool throws to fail in words for the caller: REST answers with the status of the code,
 * tools with `isError`.
 */
export function kitFailure(
  code: FailureCode,
  message: string,
  extras: { readonly issues?: readonly FieldIssue[]; readonly cause?: unknown } = {},
): GatewayError {
  const { issues, cause } = extras;
  const failure: Failure = { code, message, ...(issues === undefined ? {} : { issues }) };
  return new GatewayError(code === "store_failed" ? "store_failed" : "invalid_params", message, {
    details: { failure },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** The failure inside an error that `kitFailure` made; undefined for anything else. */
export function readFailure(error: unknown): Failure | undefined {
  if (!(error instanceof GatewayError)) return undefined;
  const failure = error.details?.["failure"];
  // Only kitFailure puts it there.
  return failure === undefined ? undefined : (failure as Failure);
}

/** The failure of arguments that do not fit, with every field and rule in one sentence (KO-022). */
export function invalidArguments(issues: readonly FieldIssue[]): GatewayError {
  const words = issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
  return kitFailure("validation_failed", `invalid arguments: ${words.join("; ")}`, { issues });
}

/** The same words for a record that is not there and one that the caller cannot see (KO-015). */
export function notFound(entity: string): GatewayError {
  return kitFailure("not_found", `${entity} not found`);
}
