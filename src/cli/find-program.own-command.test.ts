import { describe, expect, it } from "vitest";

import { ownCommand } from "./find-program.ts";

describe("the command that this user has", () => {
  const inCheckout = { npm_package_name: "headgate", npm_command: "run", npm_lifecycle_event: "headgate" };
  it.each([
    ["by npm run in a checkout", inCheckout, "/src/bin/headgate.mjs", "npm run -s headgate --"],
    ["by npm start in a checkout", { ...inCheckout, npm_lifecycle_event: "start" }, "/src/x", "npm run -s headgate --"],
    [
      "by npx",
      { npm_command: "exec", npm_lifecycle_event: "npx" },
      "/c/_npx/1/node_modules/.bin/headgate",
      "npx headgate",
    ],
    [
      "by npx in a checkout",
      { npm_package_name: "headgate", npm_command: "exec", npm_lifecycle_event: "npx" },
      "/src/x",
      "npx headgate",
    ],
    ["from a project", { PATH: "/nowhere" }, "/home/me/app/node_modules/.bin/headgate", "npx headgate"],
    [
      "by a script of a project",
      { npm_package_name: "app", npm_lifecycle_event: "gw" },
      "/app/node_modules/.bin/headgate",
      "npx headgate",
    ],
    ["by its path", { PATH: "/nowhere" }, "bin/headgate.mjs", "node bin/headgate.mjs"],
  ])("%s", (_, env, script, expected) => {
    expect(ownCommand(env, script)).toBe(expected);
  });
});
