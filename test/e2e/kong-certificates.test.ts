import { X509Certificate } from "node:crypto";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCertificate, type TestCertificate } from "../support/certificate.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";

const program = "openssl";

let server: PluginServerProcess;
let trusted: TestCertificate;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "headgate-keys-"));
  trusted = createCertificate("pingauthorize");
  // How an operator makes the plugin server trust an authority of their own.
  server = await startPackedServer({ env: { NODE_EXTRA_CA_CERTS: trusted.certFile } });
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  trusted[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

/** A client's certificate with a key of some kind, as PEM. */
function certificate(name: string, ...key: readonly string[]): string {
  const [cert, keyFile] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  const made = ["req", "-x509", ...key, "-nodes", "-days", "2", "-subj", `/CN=${name}`];
  execFileSync(program, [...made, "-keyout", keyFile, "-out", cert], { stdio: "ignore" });
  return readFileSync(cert, "utf8");
}

const curve = (name: string): readonly string[] => ["-newkey", "ec", "-pkeyopt", `ec_paramgen_curve:${name}`];
const derOf = (pem: string): string => new X509Certificate(pem).raw.toString("base64");

describe("a client's certificate", () => {
  it.each([
    ["[PA-099] RSA", ["-newkey", "rsa:2048"], { kty: "RSA", e: "AQAB" }, "n", 342],
    ["[PA-100] P-256", curve("prime256v1"), { kty: "EC", crv: "P-256" }, "y", 43],
    ["[PA-100] P-384", curve("secp384r1"), { kty: "EC", crv: "P-384" }, "y", 64],
    ["[PA-100] P-521", curve("secp521r1"), { kty: "EC", crv: "P-521" }, "x", 88],
    ["[PA-101] Ed25519", ["-newkey", "ed25519"], { kty: "OKP", crv: "Ed25519" }, "x", 43],
  ])("[PA-051] [PA-098] [PA-104] %s goes into the payload as a key", async (name, key, facts, member, length) => {
    await using rig = await createKongRig(server);
    const pem = certificate(name.replaceAll(/\W/gu, ""), ...key);
    await rig.send({ certificate: pem });
    const jwk = rig.payloads("request")[0]?.["client_certificate"] as Record<string, unknown>;
    expect(jwk).toMatchObject({ ...facts, x5c: [derOf(pem)] });
    expect(String(jwk[member])).toMatch(/^[\w-]+$/u);
    expect(String(jwk[member])).toHaveLength(length);
  });

  it("[PA-103] is alone, or with the whole chain in order", async () => {
    const [leaf, issuer] = [certificate("leaf", ...curve("prime256v1")), certificate("ca", "-newkey", "ed25519")];
    await using rig = await createKongRig(server);
    await rig.send({ certificate: leaf + issuer });
    rig.reconfigure({ include_full_cert_chain: true });
    await rig.send({ certificate: leaf + issuer });
    expect(rig.payloads("request").map((payload) => Reflect.get(Object(payload["client_certificate"]), "x5c"))).toEqual(
      [[derOf(leaf)], [derOf(leaf), derOf(issuer)]],
    );
  });

  it.each([
    ["[PA-097] no certificate at all", () => "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
    ["[PA-097] no PEM", () => "rubbish"],
    ["[PA-102] a key of another kind", () => certificate("k1", ...curve("secp256k1"))],
  ])("%s is refused, even with fail_open", async (_name, pem) => {
    await using rig = await createKongRig(server, { fail_open: true });
    const { client, upstream } = await rig.send({ certificate: pem() });
    expect([client.status, client.body.length, upstream]).toEqual([400, 0, undefined]);
    expect(rig.mock.requests).toEqual([]);
  });
});

describe("a decision point behind TLS", () => {
  const tlsOf = ({ certFile, keyFile }: TestCertificate) => ({
    cert: readFileSync(certFile, "utf8"),
    key: readFileSync(keyFile, "utf8"),
  });

  it("[PA-062] [PA-193] is asked when an authority that the operator trusts vouches for it", async () => {
    await using rig = await createKongRig(server, {}, { mock: { tls: tlsOf(trusted) } });
    const { client } = await rig.send({}, { body: "up" });
    expect([client.status, rig.mock.requests.length]).toEqual([200, 2]);
  });

  it("[PA-062] [PA-016] is not asked when nobody vouches for it, unless that is switched off", async () => {
    using stranger = createCertificate("stranger");
    await using rig = await createKongRig(server, {}, { mock: { tls: tlsOf(stranger) } });
    const { client, log } = await rig.send();
    expect([client.status, rig.mock.requests.length]).toEqual([502, 0]);
    expect(log.find(({ level }) => level === "err")?.text).toContain("self-signed");
    await using lax = await createKongRig(server, { verify_service_cert: false }, { mock: { tls: tlsOf(stranger) } });
    expect((await lax.send()).client.status).toBe(200);
  });
});
