import { readFileSync } from "node:fs";
import { GatewayError } from "../../errors.ts";

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
  const { caFile, certFile, keyFile } = files;
  return {
    ...(caFile === undefined ? {} : { ca: readPem(caFile).toString() }),
    ...(certFile === undefined ? {} : { cert: readPem(certFile).toString() }),
    ...(keyFile === undefined ? {} : { key: readPem(keyFile).toString() }),
  };
}
