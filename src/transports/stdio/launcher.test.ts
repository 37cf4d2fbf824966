import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { toWindowsCommand } from "./launcher.ts";

const cwd = String.raw`C:\work`;
const environment = {
  Path: String.raw`C:\Program Files\nodejs;C:\tools`,
  ComSpec: String.raw`C:\Windows\system32\cmd.exe`,
};
const files = new Set([
  String.raw`C:\Program Files\nodejs\npx`,
  String.raw`C:\Program Files\nodejs\npx.cmd`,
  String.raw`C:\Program Files\nodejs\node.exe`,
  String.raw`C:\tools\serve.bat`,
  String.raw`C:\work\node_modules\.bin\server.cmd`,
]);

function commandOf(file: string, ...args: readonly string[]) {
  return toWindowsCommand({ file, args }, cwd, environment, (path) => files.has(path));
}

/** What cmd.exe makes of a command line: a caret takes the meaning from the next character. */
function afterCmd(line: string): string {
  return line.replaceAll(/\^(?<next>[^])/gu, "$<next>");
}

/** What the C runtime makes of a command line (CommandLineToArgvW). */
function argumentsIn(line: string): string[] {
  return [...line.matchAll(/"(?<quoted>(?:\\.|[^"\\])*)"/gu)].map(({ groups }) => unescape(groups?.["quoted"] ?? ""));
}

function unescape(quoted: string): string {
  return quoted
    .replaceAll(/(?<slashes>\\+)"/gu, (run: string) => `${"\\".repeat((run.length - 2) / 2)}"`)
    .replace(/\\+$/u, (run) => "\\".repeat(run.length / 2));
}

describe("a command on Windows", () => {
  it.each([
    ["node", String.raw`C:\Program Files\nodejs\node.exe`],
    ["node.exe", String.raw`C:\Program Files\nodejs\node.exe`],
    ["missing", "missing"],
  ])("starts the program %s itself", (name, file) => {
    expect(commandOf(name, "a b")).toEqual({ file, args: ["a b"], windowsVerbatimArguments: false });
  });

  it.each(["npx", "NPX.cmd", "serve", String.raw`node_modules\.bin\server`, "./node_modules/.bin/server"])(
    "starts the script %s by cmd.exe",
    (name) => {
      const found = toWindowsCommand({ file: name, args: [] }, cwd, environment, (path) =>
        [...files].some((file) => file.toLowerCase() === path.toLowerCase()),
      );
      expect(found).toMatchObject({ file: environment.ComSpec, windowsVerbatimArguments: true });
      expect(found.args.slice(0, 3)).toEqual(["/d", "/s", "/c"]);
    },
  );

  it("leaves no character to cmd.exe, and every argument as it was", () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[^\r\n\0]*$/u)), fc.boolean(), (args, isNpmScript) => {
        const script = isNpmScript ? String.raw`node_modules\.bin\server` : "npx";
        const line = commandOf(script, ...args).args[3]?.slice(1, -1) ?? "";
        // Everything that cmd.exe could act on has a caret before it.
        expect(line.replaceAll(/\^[^]/gu, "")).not.toMatch(/[&|<>^"%!]/u);
        const seen = isNpmScript ? afterCmd(afterCmd(line)) : afterCmd(line);
        expect(argumentsIn(seen)).toEqual(args);
      }),
    );
  });

  it.each(["a\nb", "a\rb", "a\0b"])("refuses %j, which cmd.exe cannot pass on", (argument) => {
    expect(() => commandOf("npx", argument)).toThrow("line break");
  });
});
