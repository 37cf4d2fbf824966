import { X509Certificate } from "node:crypto";

import { describe, expect, it } from "vitest";

import { clientCertificates } from "../../../test/fixtures/client-certificates.ts";
import { toClientCertificate } from "./access-payload.ts";

const { authority } = clientCertificates;
const derOf = (pem: string): string => new X509Certificate(pem).raw.toString("base64");
const base64url = /^[\w-]+$/u;

describe("a client certificate as JWK", () => {
  it("[PA-098] [PA-099] [PA-104] of an RSA key has its modulus and exponent", () => {
    const cert = clientCertificates.rsa;
    const jwk = toClientCertificate(cert, false);
    expect(Object.keys(jwk ?? {})).toEqual(["kty", "n", "e", "x5c"]);
    expect(jwk).toMatchObject({ kty: "RSA", e: "AQAB", x5c: [derOf(cert)] });
    expect(jwk?.n).toMatch(base64url);
  });

  it.each([
    ["p-256", "P-256", 32],
    ["p-384", "P-384", 48],
    ["p-521", "P-521", 66],
  ] as const)("[PA-100] [PA-104] of a key on %s has padded coordinates", (type, crv, bytes) => {
    const cert = clientCertificates[type];
    const jwk = toClientCertificate(cert, false);
    expect(Object.keys(jwk ?? {})).toEqual(["kty", "crv", "x", "y", "x5c"]);
    expect(jwk).toMatchObject({ kty: "EC", crv });
    for (const part of [jwk?.x, jwk?.y]) {
      expect(part).toMatch(base64url);
      expect(Buffer.from(String(part), "base64url")).toHaveLength(bytes);
    }
  });

  it("[PA-101] of an Ed25519 key has its point", () => {
    const cert = clientCertificates.ed25519;
    const jwk = toClientCertificate(cert, false);
    expect(Object.keys(jwk ?? {})).toEqual(["kty", "crv", "x", "x5c"]);
    expect(jwk).toMatchObject({ kty: "OKP", crv: "Ed25519" });
  });

  it.each(["rsa-pss", "secp256k1", "ed448"] as const)("[PA-102] there is none for a key of type %s", (type) => {
    expect(toClientCertificate(clientCertificates[type], false)).toBeUndefined();
  });

  it("[PA-103] has the leaf alone, or the chain in its order", () => {
    const cert = clientCertificates["p-256"];
    const chain = `${cert}\n${authority}`;
    expect(toClientCertificate(chain, false)?.x5c).toEqual([derOf(cert)]);
    expect(toClientCertificate(chain, true)?.x5c).toEqual([derOf(cert), derOf(authority)]);
    expect(toClientCertificate(`${authority}\n${cert}`, true)?.x5c).toEqual([derOf(authority), derOf(cert)]);
  });

  it.each(["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])(
    "[PA-097] there is none for %j",
    (pem) => {
      expect(toClientCertificate(pem, false)).toBeUndefined();
    },
  );
});
