import { readFileSync } from "node:fs";
import { GatewayError } from "../errors.ts";

/** Reads a certificate or key; one that cannot be read is a fault of the configuration. */
export function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new GatewayError("config_invalid", `cannot read ${file}`, { cause: error });
  }
}
