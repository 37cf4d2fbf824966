import { describe, expect, it } from "vitest";

import { commands, type CommandName } from "./commands.ts";
import { defineCommand } from "./define-command.ts";

const names = Object.keys(commands) as CommandName[];
const startsPrograms: readonly CommandName[] = names.filter((name) =>
  commands[name].usage.some((usage) => usage.endsWith("-- COMMAND [ARGS…]")),
);

async function run(name: CommandName, ...args: string[]) {
  let err = "";
  const seen: (readonly string[] | undefined)[] = [];
  const command = defineCommand(name, async ({ program }) => {
    seen.push(program);
    return Promise.resolve(0);
  });
  const exitCode = await command(args, { err: (text: string) => (err += text) });
  return { exitCode, err, seen };
}

describe("what follows --", () => {
  it.each(startsPrograms)("is the program of %s", async (name) => {
    expect(await run(name, "--", "npx", "-y")).toEqual({ exitCode: 0, err: "", seen: [["npx", "-y"]] });
  });

  it.each(names.filter((name) => !startsPrograms.includes(name)))("is refused by %s", async (name) => {
    const { exitCode, err, seen } = await run(name, "--", "npx");
    expect({ exitCode, seen }).toEqual({ exitCode: 2, seen: [] });
    expect(err).toContain(`headgate ${name}: this command takes nothing after \`--\``);
  });
});
