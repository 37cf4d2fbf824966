import * as z from "zod";

import { minSealSecretBytes } from "../lib/keys/sealing.ts";

/** The `state` part of the configuration. */
export const stateConfig = z.strictObject({
  keys: z
    .array(
      z
        .string()
        .refine((text) => Buffer.byteLength(text) >= minSealSecretBytes, {
          error: `must have at least ${minSealSecretBytes} bytes; make one with \`openssl rand -base64 32\``,
        })
        .meta({ writeOnly: true }),
    )
    .min(1)
    .optional()
    .describe(
      "Secrets that seal session ids and whatever else clients carry; gateways with the same keys accept each other's. The first one seals, all of them open: to change keys, put the new one in front. Default: a random key in `folder`.",
    ),
  folder: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Folder for the key file and the list of ended sessions. `headgate run` has a default in the user's data folder. Without a folder and keys, sessions end with the process.",
    ),
});
