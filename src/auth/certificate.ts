import { X509Certificate } from "node:crypto";
import type { Principal } from "../core/exchange.ts";
import { type Authentication, authenticationFailure, type Authenticator, missingCredentials } from "./authenticator.ts";

/** Which part of a certificate says who its holder is. */
export type CertificateIdentity = "subject" | "uri" | "dns" | "email" | "fingerprint";

export interface CertificateOptions {
  /** The name of this authenticator, which makes its principals differ from those of others. */
  readonly name: string;
  readonly identity: CertificateIdentity;
  readonly scopes: ReadonlySet<string>;
  readonly wall: () => number;
}

/**
 * Takes the client certificate of the connection, which TLS has verified against the listener's authorities. Connections
 * show the same bytes with every request, so a certificate is read once.
 */
export function createCertificates(options: CertificateOptions): Authenticator {
  const readings = new WeakMap<Uint8Array, Principal | "unnamed">();

  function read(certificate: Uint8Array): Principal | "unnamed" {
    let reading = readings.get(certificate);
    if (reading === undefined) {
      reading = principalOf(new X509Certificate(certificate), options) ?? "unnamed";
      readings.set(certificate, reading);
    }
    return reading;
  }

  return {
    authenticate: ({ certificate }): Authentication => {
      if (certificate === undefined) return missingCredentials;
      const principal = read(certificate);
      if (principal === "unnamed") return authenticationFailure("invalid_token", "the client certificate names nobody");
      // TLS looked at the dates when the connection was made, which may be long ago.
      const isOver = principal.expiresAt !== undefined && options.wall() >= principal.expiresAt;
      return isOver
        ? authenticationFailure("invalid_token", "the client certificate has expired")
        : { ok: true, principal };
    },
  };
}

function principalOf(certificate: X509Certificate, options: CertificateOptions): Principal | undefined {
  const { subject, issuer, serialNumber, fingerprint256, subjectAltName } = certificate;
  const name = nameOf(certificate, options.identity);
  if (name === undefined) return undefined;
  return {
    id: `certificate:${options.name}/${name}`,
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
  // Two names of one kind do not say which of them is meant. Quotes stand around what could be taken for more.
  const [only, ...more] = names.map((name) => name.slice(prefix.length));
  return only === undefined || more.length > 0 || only.startsWith('"') ? undefined : only;
}

/** A distinguished name on one line; Node puts every part on a line of its own. */
function oneLine(name: string | undefined): string {
  return (name ?? "").replaceAll("\n", ",");
}
