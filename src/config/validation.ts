import * as z from "zod";

import { validationLevels } from "../protocol/validation/validate.ts";

const setting = z.enum(["off", "warn", "enforce"]).optional();

/** The `validation` part of the configuration and of a route. */
export const validationConfig = z.union(
  [
    z.enum(validationLevels),
    z.strictObject({
      method: setting.describe("Methods, their directions, and whether they are requests or notifications."),
      schema: setting.describe("Parameters and results, by the schema of the protocol revision."),
      semantic: setting.describe("Capabilities that were declared, ids in flight, and results that ask for input."),
    }),
  ],
  {
    error: `expected one of ${validationLevels.join(", ")}, or an object that sets single levels to off, warn or enforce`,
  },
);
