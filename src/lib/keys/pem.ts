import { readFileSync } from "node:fs";
import { GatewayError } from "../../errors.ts";
import { withoutUndefined } from "../without-undefined.ts";

/** Reads a certificate or key; one that cannot be read is a fault of the configuration. */
export function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new GatewayError("config_invalid", `cannot read ${file}`, { cause: error });
  }
}

/** Authorities, certificate and key as the configuration names their files. */
export interface TlsFiles {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
}

/** Reads the files for a connection, those that are named. */
export function readTls(files: TlsFiles | undefined): { ca?: string; cert?: string; key?: string } | undefined {
  if (files === undefined) return undefined;
  const read = (file: string | undefined) => (file === undefined ? undefined : readPem(file).toString());
  return withoutUndefined({ ca: read(files.caFile), cert: read(files.certFile), key: read(files.keyFile) });
}
