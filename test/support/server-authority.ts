import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** An authority that exists for one test file, for servers on this machine and those who call them. */
export interface ServerAuthority extends Disposable {
  /** Its certificate, PEM. */
  readonly ca: string;
  /** Makes a key and a certificate for 127.0.0.1 that the authority signed, both PEM. */
  readonly issue: (commonName: string) => { readonly key: string; readonly cert: string };
}

const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"] as const;

/** Makes an authority; needs the `openssl` program. */
export function createServerAuthority(): ServerAuthority {
  const folder = mkdtempSync(join(tmpdir(), "headgate-ca-"));
  const path = (name: string): string => join(folder, name);
  const run = (...args: readonly string[]): void => {
    execFileSync("openssl", args, { stdio: "ignore" });
  };
  const about = ["-days", "2", "-subj", "/CN=Test CA"];
  run("req", "-x509", ...newKey, ...about, "-keyout", path("ca.key"), "-out", path("ca.pem"));
  writeFileSync(path("ext"), "subjectAltName=IP:127.0.0.1\n");
  const signer = ["-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial", "-extfile", path("ext")];
  return {
    ca: readFileSync(path("ca.pem"), "utf8"),
    issue(commonName) {
      run("req", ...newKey, "-subj", `/CN=${commonName}`, "-keyout", path("key"), "-out", path("csr"));
      run("x509", "-req", "-in", path("csr"), ...signer, "-days", "2", "-out", path("cert"));
      return { key: readFileSync(path("key"), "utf8"), cert: readFileSync(path("cert"), "utf8") };
    },
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true });
    },
  };
}
