import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A certificate with its key, in PEM. */
export interface KeyedCertificate {
  readonly cert: string;
  readonly key: string;
}

/** An authority that vouches for clients. */
export interface TestAuthority extends Disposable {
  readonly caFile: string;
  /** Signs a certificate for a client; an alternative name is written as OpenSSL wants it, `URI:spiffe://…`. */
  readonly issue: (commonName: string, altName?: string) => KeyedCertificate;
}

const program = "openssl";

/** Makes an authority; needs the `openssl` program. */
export function createAuthority(name: string): TestAuthority {
  const folder = mkdtempSync(join(tmpdir(), "headgate-ca-"));
  const path = (file: string): string => join(folder, file);
  const run = (...args: readonly string[]): void => {
    execFileSync(program, [...args], { stdio: "ignore" });
  };
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  run(
    "req",
    "-x509",
    ...newKey,
    "-days",
    "2",
    "-subj",
    `/CN=${name}`,
    "-keyout",
    path("ca.key"),
    "-out",
    path("ca.pem"),
  );
  let issued = 0;
  return {
    caFile: path("ca.pem"),
    issue: (commonName, altName) => {
      issued += 1;
      const [key, csr, cert, extensions] = ["key", "csr", "pem", "ext"].map((end) => path(`client-${issued}.${end}`));
      if (key === undefined || csr === undefined || cert === undefined || extensions === undefined)
        throw new Error("four files were named");
      const lines = ["extendedKeyUsage=clientAuth", ...(altName === undefined ? [] : [`subjectAltName=${altName}`])];
      writeFileSync(extensions, lines.join("\n"));
      run("req", ...newKey, "-subj", `/O=Example/CN=${commonName}`, "-keyout", key, "-out", csr);
      const signer = ["-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial"];
      run("x509", "-req", "-in", csr, ...signer, "-days", "2", "-extfile", extensions, "-out", cert);
      return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
    },
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true });
    },
  };
}
