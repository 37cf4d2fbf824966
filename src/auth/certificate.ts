import { X509Certificate } from "node:crypto";
import type { Principal } from "../core/exchange.ts";
import { type Authentication, authenticationFailure, type Authenticator, missingCredentials } from "./authenticator.ts";

/** Which part of a certificate identifies its holder. */
export type CertificateIdentity = "subject" | "uri" | "dns" | "email" | "fingerprint";

export interface CertificateOptions {
  /** The name of this authenticator; part of the ids of its principals. */
  readonly name: string;
  readonly identity: CertificateIdentity;
  readonly scopes: ReadonlySet<string>;
  readonly wall: () => number;
}

/**
 * Authenticates with the client certificate of the connection, which TLS has verified. All requests of a connection
 * share the same bytes, so a certificate is parsed once.
 */
export function createCertificates(options: CertificateOptions): Authenticator {
  const parsed = new WeakMap<Uint8Array, Principal | "unnamed">();

  function read(certificate: Uint8Array): Principal | "unnamed" {
    let principal = parsed.get(certificate);
    if (principal === undefined) {
      principal = principalOf(new X509Certificate(certificate), options) ?? "unnamed";
      parsed.set(certificate, principal);
    }
    return principal;
  }

  return {
    authenticate: ({ certificate }): Authentication => {
      if (certificate === undefined) return missingCredentials;
      const principal = read(certificate);
      if (principal === "unnamed")
        return authenticationFailure("invalid_token", "the client certificate has no usable name");
      // TLS checked the dates only when the connection was opened.
      const isOver = principal.expiresAt !== undefined && options.wall() >= principal.expiresAt;
      return isOver
        ? authenticationFailure("invalid_token", "the client certificate has expired")
        : { ok: true, principal };
    },
  };
}

/** The prefix of the principal ids of an authenticator's certificates. */
export function certificateIdPrefix(authenticator: string): string {
  return `certificate:${authenticator}/`;
}

function principalOf(certificate: X509Certificate, options: CertificateOptions): Principal | undefined {
  const { subject, issuer, serialNumber, fingerprint256, subjectAltName } = certificate;
  const name = nameOf(certificate, options.identity);
  if (name === undefined) return undefined;
  return {
    id: `${certificateIdPrefix(options.name)}${name}`,
    kind: "certificate",
    scopes: options.scopes,
    claims: {
      sub: name,
      subject: oneLine(subject),
      issuer: oneLine(issuer),
      serialNumber,
      fingerprint256,
      ...(subjectAltName === undefined ? {} : { subjectAltName }),
    },
    expiresAt: Date.parse(certificate.validTo),
  };
}

const altNames = { uri: "URI:", dns: "DNS:", email: "email:" } as const;

function nameOf(certificate: X509Certificate, identity: CertificateIdentity): string | undefined {
  if (identity === "fingerprint") return certificate.fingerprint256.replaceAll(":", "").toLowerCase();
  if (identity === "subject") {
    const subject = oneLine(certificate.subject);
    return subject === "" ? undefined : subject;
  }
  const prefix = altNames[identity];
  const names = (certificate.subjectAltName ?? "").split(", ").filter((name) => name.startsWith(prefix));
  // Several names are ambiguous. Node quotes names that contain separators.
  const [only, ...more] = names.map((name) => name.slice(prefix.length));
  return only === undefined || more.length > 0 || only.startsWith('"') ? undefined : only;
}

/** Node puts every part of a distinguished name on its own line. */
function oneLine(name: string | undefined): string {
  return (name ?? "").replaceAll("\n", ",");
}
