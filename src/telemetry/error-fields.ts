import type { GatewayError } from "../errors.ts";
import type { LogFields } from "./log.ts";

/** The fields of a log line about an error: its code, what is known of its cause, and the stack where it is our bug. */
export function errorFields(error: GatewayError): LogFields {
  const { code, message, cause } = error;
  const origin = cause instanceof Error ? cause : undefined;
  return {
    error: code,
    detail: message,
    ...(origin === undefined ? {} : { cause: describeError(origin) }),
    ...(code === "internal" ? { stack: (origin ?? error).stack } : {}),
  };
}

function describeError(error: Error): string {
  const code = "code" in error && typeof error.code === "string" ? ` (${error.code})` : "";
  return `${error.name}: ${error.message}${code}`;
}
