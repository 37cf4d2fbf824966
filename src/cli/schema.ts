import { configJsonSchema } from "../config/generate.ts";
import type { CliIo } from "./io.ts";

const schemaUsage = "usage: headgate schema\n";
const schemaUsageExit = 2;

/** `headgate schema`: prints the JSON schema of the configuration, for editors and other checks. */
export async function schema(args: readonly string[], io: CliIo): Promise<number> {
  if (args.length > 0) {
    io.err(schemaUsage);
    return schemaUsageExit;
  }
  io.out(`${JSON.stringify(configJsonSchema(), undefined, 2)}\n`);
  return Promise.resolve(0);
}
