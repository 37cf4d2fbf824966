import * as z from "zod";

/** Headers about one connection, which a proxy does not forward (RFC 9110, section 7.6.1), and those of its own hop. */
export const connectionHeaders: ReadonlySet<string> = new Set(
  (
    "connection expect host keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer " +
    "transfer-encoding upgrade"
  ).split(" "),
);

/**
 * Headers of the connection, and those that the transports write themselves; they can neither be configured nor
 * forwarded (RFC 9110, section 7.6.1; MCP 2025-11-25 and 2026-07-28, Streamable HTTP).
 */
const managedHeaders: ReadonlySet<string> = new Set([
  ...connectionHeaders,
  ..."accept accept-encoding content-encoding content-length content-type last-event-id".split(" "),
]);

/** The name of any header. */
export const anyHeaderName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u, { error: "is not the name of an HTTP header" });

/** The name of a header that may be configured or forwarded; lower-case once parsed. */
export const headerName = anyHeaderName
  .transform((name) => name.toLowerCase())
  .refine((name) => !managedHeaders.has(name) && !name.startsWith("mcp-"), {
    error: "is a header that the gateway sets itself",
  });
