import { execFileSync } from "node:child_process";
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A certificate that was signed by nobody, in files. */
export interface TestCertificate extends Disposable {
  readonly certFile: string;
  readonly keyFile: string;
  /** Puts a new one in place as deployments do: written elsewhere, then moved, the key first. */
  readonly replace: (commonName: string) => void;
}

const program = "openssl";

/** Makes a certificate for this machine; needs the `openssl` program. */
export function createCertificate(commonName: string): TestCertificate {
  const folder = mkdtempSync(join(tmpdir(), "headgate-tls-"));
  const certFile = join(folder, "cert.pem");
  const keyFile = join(folder, "key.pem");
  const write = (name: string, cert: string, key: string): void => {
    const made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    const about = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
    execFileSync(program, ["req", ...made, "-keyout", key, "-out", cert, ...about], { stdio: "ignore" });
  };
  write(commonName, certFile, keyFile);
  return {
    certFile,
    keyFile,
    replace: (name) => {
      write(name, `${certFile}.new`, `${keyFile}.new`);
      renameSync(`${keyFile}.new`, keyFile);
      renameSync(`${certFile}.new`, certFile);
    },
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true });
    },
  };
}
