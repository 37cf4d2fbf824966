import { hash } from "node:crypto";
import { asObject } from "./http.ts";

/**
 * Whether a token that is bound to its holder is shown by that holder: the certificate of the connection must be the
 * one in `cnf` (RFC 8705 section 3). Bindings that cannot be checked here, such as DPoP's, do not hold: the token would
 * be good for whoever stole it.
 */
export function matchesConfirmation(confirmation: unknown, certificate: Uint8Array | undefined): boolean {
  if (confirmation === undefined) return true;
  const { "x5t#S256": thumbprint, ...others } = asObject(confirmation) ?? {};
  if (typeof thumbprint !== "string" || Object.keys(others).length > 0 || certificate === undefined)
    return false;
  return hash("sha256", certificate, "base64url") === thumbprint;
}
