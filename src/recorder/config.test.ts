import { describe, expect, it } from "vitest";

import { recordConfig } from "./config.ts";

describe("the paths that recordings redact", () => {
  it.each(["/arguments/ssn", "/ssn", "/params/**/ssn", "/params/arguments/visits[*]/x"])(
    "are refused where they would match nothing: %s",
    (path) => {
      expect(recordConfig.safeParse({ redact: { paths: [path] } }).success).toBe(false);
    },
  );

  it.each(["/params/arguments/ssn", "/result/structuredContent/*/ssn", "/error/data", "/*/arguments/ssn"])(
    "may be places of a message: %s",
    (path) => {
      expect(recordConfig.safeParse({ redact: { paths: [path] } }).success).toBe(true);
    },
  );
});
