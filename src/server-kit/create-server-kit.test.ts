import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createServerKit, startServerKit } from "./create-server-kit.ts";
import { defineTool } from "./tools/define-tool.ts";

const tool = { name: "hello", description: "", input: z.object({}), run: () => "hello" };

describe("options without a type checker", () => {
  it.each<[options: unknown, problem: string]>([
    [{ name: "x", entites: [] }, "server kit: unknown option entites; did you mean entities?"],
    [{ name: "x", entities: {} }, "server kit: option entities must be a list"],
    [{ name: "x", store: "x.db" }, "server kit: option store must be an object"],
    [
      { name: "x", auth: { authenticater: {} } },
      "server kit: auth: unknown option authenticater; did you mean authenticator?",
    ],
    [{ name: "x", auth: { identify: true } }, "server kit: auth: option identify must be a function"],
    [{}, "server kit: option name is missing; clients see it"],
    [undefined, "server kit: its options must be an object"],
  ])("are refused: %j", async (options, problem) => {
    await expect(createServerKit(options as never)).rejects.toThrow(problem);
    await expect(startServerKit(options as never)).rejects.toThrow(problem);
  });

  it("that only start takes are refused by create", async () => {
    await expect(createServerKit({ name: "x", listen: {} } as never)).rejects.toThrow("unknown option listen");
  });

  it.each<[options: object, problem: string]>([
    [
      { ...tool, requiredScope: ["x"] },
      "custom tool hello: unknown option requiredScope; did you mean requiredScopes?",
    ],
    [{ ...tool, requiredScopes: "x" }, "custom tool hello: option requiredScopes must be a list of strings"],
    [{ ...tool, enabledTransports: ["http"] }, "custom tool hello: option enabledTransports has http; expected stdio,"],
    [{ ...tool, run: undefined }, "custom tool hello: option run is missing"],
    [{ ...tool, input: undefined }, "custom tool hello: option input is missing"],
  ])("of a tool are refused: %j", (options, problem) => {
    expect(() => defineTool(options as never)).toThrow(problem);
  });
});
