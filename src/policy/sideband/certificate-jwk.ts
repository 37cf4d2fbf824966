import { X509Certificate } from "node:crypto";

/** A public key as JWK with the certificates it came from. */
export type ClientCertificate = Readonly<Record<string, string | readonly string[]>>;

const pemBlock = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/gu;

/** Which members of an exported key go into the payload, by type of key; other curves and types are refused (PA-102). */
const keyMembers: Readonly<Record<string, readonly string[]>> = {
  RSA: ["n", "e"],
  "EC P-256": ["crv", "x", "y"],
  "EC P-384": ["crv", "x", "y"],
  "EC P-521": ["crv", "x", "y"],
  "OKP Ed25519": ["crv", "x"],
};

/**
 * The JWK of the first certificate in a PEM chain, with `x5c` (PA-098 to PA-104). Undefined when a certificate cannot
 * be read or its key is of another type.
 */
export function toClientCertificate(pem: string, withChain: boolean): ClientCertificate | undefined {
  try {
    const certificates = (pem.match(pemBlock) ?? []).map((block) => new X509Certificate(block));
    const [leaf] = certificates;
    if (leaf === undefined) return undefined;
    const key = leaf.publicKey.export({ format: "jwk" });
    const { kty = "", crv } = key;
    const members = keyMembers[crv === undefined ? kty : `${kty} ${crv}`];
    if (members === undefined) return undefined;
    const x5c = (withChain ? certificates : [leaf]).map(({ raw }) => raw.toString("base64"));
    return { kty, ...Object.fromEntries(members.map((name) => [name, String(key[name])])), x5c };
  } catch {
    // Whatever is wrong with a certificate or its key, it comes out the same: the request is refused (PA-097, PA-102).
    return undefined;
  }
}
