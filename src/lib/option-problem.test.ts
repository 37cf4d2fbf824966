import { describe, expect, it } from "vitest";

import { type OptionForm, optionProblem } from "./option-problem.ts";

const forms: Readonly<Record<string, OptionForm>> = {
  scopes: "string[]",
  open: "boolean",
  name: "string",
  hooks: "object",
  run: "function",
  entries: "list",
  kinds: { listOf: ["read", "write"] },
  rest: "any",
};

describe("options", () => {
  it.each<[unknown, string | undefined]>([
    [{}, undefined],
    [
      { scopes: ["a"], open: false, name: "x", hooks: {}, run: () => {}, entries: [1], kinds: ["read"], rest: 3 },
      undefined,
    ],
    [{ scopes: undefined }, undefined],
    [{ scope: ["a"] }, "unknown option scope; did you mean scopes?"],
    [{ constructor: 1 }, "unknown option constructor; expected scopes, open, name, hooks, run, entries, kinds, rest"],
    [{ scopes: "a" }, "option scopes must be a list of strings"],
    [{ scopes: [1] }, "option scopes must be a list of strings"],
    [{ open: "false" }, "option open must be a boolean"],
    [{ hooks: [] }, "option hooks must be an object"],
    [{ run: true }, "option run must be a function"],
    [{ entries: {} }, "option entries must be a list"],
    [{ kinds: "read" }, "option kinds must be a list of read, write"],
    [{ kinds: ["wirte"] }, "option kinds has wirte; did you mean write?"],
    [null, "its options must be an object"],
  ])("%j", (options, problem) => {
    expect(optionProblem(options, forms)).toBe(problem);
  });
});
