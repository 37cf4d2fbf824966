import * as z from "zod";

/** A config field for an HTTP header name. */
export const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u, { error: "is not the name of an HTTP header" });

const file = z.string().min(1).optional();

/** The `tls` section of a decision point. */
export const pdpTlsConfig = z
  .strictObject({
    caFile: file.describe("PEM file with trusted certificate authorities, instead of the system's."),
    certFile: file.describe("PEM file with the client certificate."),
    keyFile: file.describe("PEM file with the key of the client certificate."),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    error: "`certFile` and `keyFile` go together",
  });
