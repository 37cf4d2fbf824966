import { describe, expect, it } from "vitest";

import { configJsonSchema } from "../../config/json-schema.ts";
import { schema } from "./check.ts";

async function run(...args: string[]) {
  let [out, err] = ["", ""];
  const exitCode = await schema(args, {
    out: (text) => (out += text),
    err: (text) => (err += text),
    env: {},
    readFile: () => Promise.reject(new Error("nothing to read")),
  });
  return { exitCode, out, err };
}

describe("headgate schema", () => {
  it("prints the JSON schema of the configuration", async () => {
    const { exitCode, out, err } = await run();
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
    expect(JSON.parse(out)).toEqual(configJsonSchema());
  });

  it("takes no arguments", async () => {
    expect(await run("x")).toEqual({
      exitCode: 2,
      out: "",
      err: "headgate schema: takes no arguments\nRun headgate schema --help for usage.\n",
    });
  });
});
